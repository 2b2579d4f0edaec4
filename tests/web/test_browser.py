"""`pace web` in a real browser: drawn, live, driven by keys, and without a request to anywhere else."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browsers import LONG_MS, served, until, window
from tests.support.changed_runs import ONE_MORE_FACT
from tests.support.finished_runs import make_run, poison

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = make_run(tmp_path_factory.mktemp("browser") / "run")
    poison(run)
    return run


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with served(folder) as address:
        yield address


@pytest.fixture
def page(address: str, browser: Browser) -> Iterator[Page]:
    with window(browser, address) as page:
        yield page


def test_a_commit_is_shown_without_a_reload(page: Page, folder: Path, address: str) -> None:
    page.goto(address.split("?")[0] + "/candidates")
    page.get_by_role("status").get_by_text("live").wait_for()
    with sqlite3.connect(folder / "population.db") as database:
        database.execute("update candidates set score = 12345.5, merit = 12345.5 where candidate = 3")
        database.execute(ONE_MORE_FACT)
    database.close()
    expect(page.get_by_text("12345.5", exact=False).first).to_be_visible(timeout=LONG_MS)


def test_the_tree_is_drawn_walked_by_keys_folded_and_opened(page: Page, address: str) -> None:
    page.goto(address.split("?")[0] + "/tree")
    until(page, "window.paceTree?.view().nodes > 0")
    nodes = page.evaluate("paceTree.view().nodes")
    tree = page.locator("#tree")
    tree.focus()
    for _ in range(40):  # to the seed program, however deep the best is
        page.keyboard.press("ArrowLeft")
    assert page.evaluate("paceTree.view().chosen") == 0
    page.keyboard.press("f")
    assert page.evaluate("paceTree.view().nodes") < nodes
    page.keyboard.press("f")
    assert page.evaluate("paceTree.view().nodes") == nodes
    page.keyboard.press("Enter")
    page.locator("#beside").get_by_text("The seed program").wait_for()
    assert page.evaluate("location.hash") == "#candidate-0"
    page.reload()
    page.locator("#beside").get_by_text("The seed program").wait_for()
    before = page.evaluate("paceTree.view().across")
    tree.focus()
    page.keyboard.press("+")
    assert page.evaluate("paceTree.view().across") != before


def test_a_condition_is_typed_and_a_row_is_opened(page: Page, address: str) -> None:
    page.goto(address.split("?")[0] + "/candidates")
    page.get_by_label("Condition in SQL").fill("candidate = 2")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("1 candidate, page 1 of 1")).to_be_visible(timeout=LONG_MS)
    page.get_by_role("link", name="2", exact=True).first.click()
    expect(page.get_by_role("heading", name="Candidate 2")).to_be_visible(timeout=LONG_MS)


@pytest.mark.nightly
def test_no_page_is_wider_than_a_small_screen(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    run = address.split("?")[0]
    parts = (
        "",
        "/candidates",
        "/tree",
        "/islands",
        "/metrics",
        "/learner",
        "/spend",
        "/machines",
        "/inbox",
        "/candidate/1",
    )
    for part in (*(run + part for part in parts), run.replace("/run/run", "/compare")):
        page.goto(part)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, part
