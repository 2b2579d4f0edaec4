"""Each control of each page, used in a real browser, and each address opened again."""

import csv
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browsers import LONG_MS, served, until, window
from tests.support.finished_runs import make_run

CANDIDATES = 123
MORE = """
insert into candidates select run_id, candidate + 100 * {k}, candidate + 100 * {k}, island, parent, outcome, score,
  merit, reward, mechanism, detail, seconds, queue_seconds, memoised, at + {k}, metrics, program_hash, program, feedback
from candidates where candidate between 1 and 40
"""
ADDRESSES = (
    "/",
    "/compare?run=run&run=other",
    *[f"/run/run{part}" for part in ("", "/islands", "/spend", "/machines", "/candidate/3", "/candidate/3/prompts")],
    *[f"/run/run/learner{query}" for query in ("", "?by=groups", "?by=hours")],
    "/run/run/candidates?where=score+is+not+null&sort=score&down=0&column=candidate&column=score&page=2",
    "/run/run/tree?most=300&colour=island#candidate-5",
    "/run/nosuch",
)
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    runs = tmp_path_factory.mktemp("controls")
    make_run(runs / "other")
    with closing(sqlite3.connect(make_run(runs / "run") / "population.db")) as database, database:
        for k in (1, 2):
            database.execute(MORE.format(k=k))
        database.execute("delete from candidates where candidate > 237")
        database.execute("insert into faults values (1, 900, 'engine', 'timeout', 'connection reset', null, 1.0)")
    with served(runs) as address:
        yield address


@pytest.fixture
def page(address: str, browser: Browser) -> Iterator[Page]:
    with window(browser, address) as page:
        yield page


def settled(page: Page) -> None:
    """Wait until a tree is drawn, and the candidate of its address is beside it."""
    if "/tree" not in page.url:
        return
    expect(page.locator("#count")).to_contain_text(re.compile(r"candidates|Candidate \d"), timeout=LONG_MS)
    if named := re.search(r"#candidate-(\d+)", page.url):
        expect(page.locator("#beside")).to_contain_text(f"Candidate {named[1]}", timeout=LONG_MS)


def test_every_page_is_reached_by_a_click_from_the_first(page: Page) -> None:
    page.get_by_role("link", name="run", exact=True).click()
    for name in ("Candidates", "Tree", "Islands", "Learner", "Spend and faults", "Machines", "Inbox", "Run"):
        link = page.get_by_role("navigation").get_by_role("link", name=name, exact=True)
        link.click()
        expect(link).to_have_attribute("aria-current", "page")
        settled(page)
    page.get_by_role("link", name="the best program").click()
    page.get_by_role("link", name="The prompts, word for word").click()
    page.get_by_role("link", name=re.compile(r"^Candidate \d+$")).click()
    page.get_by_role("link", name=re.compile(r"^candidate \d+$")).first.click()  # its parent
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"Candidate \d+|The seed program"))
    page.get_by_role("link", name="All runs").click()
    page.get_by_role("link", name="Comparison").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("2 runs")


def test_the_first_key_skips_to_the_content(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_the_table_is_sorted_turned_narrowed_and_taken_along(page: Page, address: str, tmp_path: Path) -> None:
    page.goto(f"{address.partition('/?')[0]}/run/run/candidates")
    shown = page.locator("p.sub").filter(has_text="page ")
    expect(shown).to_contain_text(f"{CANDIDATES - 5} candidates, page 1 of 2")
    page.get_by_role("link", name="Next page").click()
    expect(shown).to_contain_text("page 2 of 2")
    page.get_by_role("link", name="Page before").click()
    expect(shown).to_contain_text("page 1 of 2")
    heading = page.get_by_role("columnheader", name="score")
    for order in ("descending", "ascending", "descending"):
        heading.get_by_role("link").click()
        expect(heading).to_have_attribute("aria-sort", order)
    page.locator("summary").click()
    for column in ("island", "experiment"):
        page.get_by_label(column, exact=True).uncheck()
    page.get_by_label("Condition in SQL").fill("score > ")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_contain_text("That condition cannot be used")
    page.get_by_label("Condition in SQL").fill("score is not null and island = 1")
    page.keyboard.press("Enter")
    expect(heading).to_have_attribute("aria-sort", "descending")
    assert page.get_by_role("columnheader", name="island").count() == 0
    with page.expect_download() as taken:
        page.get_by_role("link", name="These candidates as CSV").click()
    taken.value.save_as(tmp_path / "taken.csv")
    rows = list(csv.DictReader((tmp_path / "taken.csv").read_text(encoding="utf-8").splitlines()))
    scores = [float(row["score"]) for row in rows]
    assert scores == sorted(scores, reverse=True) and "island" not in rows[0]
    expect(shown).to_contain_text(f"{len(rows)} candidates")


def test_the_tree_is_moved_zoomed_coloured_cut_and_clicked(page: Page, address: str) -> None:
    page.goto(f"{address.partition('/?')[0]}/run/run/tree")
    settled(page)
    tree = page.locator("#tree")

    def view() -> dict[str, float]:
        return page.evaluate("paceTree.view()")

    def pixels() -> str:
        page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        return page.evaluate("document.getElementById('tree').toDataURL()")

    by_score = pixels()
    for colour in ("island", "age", "outcome"):
        page.get_by_label("Colour by").select_option(colour)
        assert pixels() != by_score and f"colour={colour}" in page.url
    box = tree.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = view()
    page.mouse.move(x, y)
    page.mouse.wheel(0, -400)
    until(page, f"paceTree.view().across > {before['across']}")
    near = view()
    page.mouse.down()
    page.mouse.move(x + 40, y + 30, steps=4)
    page.mouse.up()
    moved = view()
    assert (round(moved["x"] - near["x"]), round(moved["y"] - near["y"])) == (40, 30)
    page.get_by_role("button", name="Best path").click()
    assert view()["nodes"] < before["nodes"]
    page.get_by_role("button", name="Show all").click()
    assert (view()["nodes"], view()["across"]) == (before["nodes"], before["across"])
    page.mouse.click(box["x"] + view()["x"], box["y"] + view()["y"])  # the seed program stands first
    expect(page.locator("#beside")).to_contain_text("The seed program", timeout=LONG_MS)
    page.get_by_label("Detail").select_option("300")
    expect(page).to_have_url(re.compile(r"most=300"))


def test_the_learner_is_shown_over_each_axis_and_runs_are_chosen_to_compare(page: Page, address: str) -> None:
    origin = address.partition("/?")[0]
    page.goto(f"{origin}/run/run/learner")
    for axis in ("groups", "hours", "candidates"):
        page.get_by_role("link", name=axis, exact=True).click()
        expect(page.get_by_role("link", name=axis, exact=True)).to_have_attribute("aria-current", "true")
    page.goto(f"{origin}/compare")
    page.get_by_label("other").uncheck()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("1 run")
    assert page.url.endswith("/compare?run=run")


@pytest.mark.parametrize("part", ADDRESSES)
def test_an_address_opened_again_shows_the_same(page: Page, address: str, part: str) -> None:
    content = page.locator("#beside" if "/tree" in part else "main")
    page.goto(address.partition("/?")[0] + part)
    settled(page)
    before, shown = page.url, content.inner_text()
    page.reload()
    settled(page)
    assert page.url == before == address.partition("/?")[0] + part
    assert content.inner_text() == shown != ""


@pytest.mark.nightly
def test_no_address_is_shown_without_the_token_under_another_name_or_to_a_post(address: str, browser: Browser) -> None:
    origin = address.partition("/?")[0]
    context = browser.new_context()
    page = context.new_page()
    for part in (*ADDRESSES, "/assets/live.js", "/run/run/tree.json", "/run/run/events", "/run/run/candidates.csv"):
        answer = page.goto(origin + part)
        assert answer is not None and answer.status == 403, part
        expect(page.locator("body")).to_contain_text("Open the whole address that `pace web` printed")
    elsewhere = page.goto(f"{origin.replace('127.0.0.1', 'evil.example')}/?token=secret")
    assert elsewhere is not None and elsewhere.status == 421
    assert page.goto(address) is not None and page.title() == "Runs · pace"
    assert page.request.post(f"{origin}/run/run").status == 405
    context.close()
    assert httpx.get(f"{origin}/", headers={"Host": f"evil.example:{urlsplit(origin).port}"}).status_code == 421
