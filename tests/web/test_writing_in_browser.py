"""The forms of the inbox in a real browser: by keyboard alone, beside a run that commits, and again after a mistake."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browsers import LONG_MS, served, window
from tests.support.changed_runs import ONE_MORE_FACT
from tests.support.finished_runs import make_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The population of a run whose advisor reads words."""
    file = make_run(tmp_path_factory.mktemp("written") / "run") / "population.db"
    with closing(sqlite3.connect(file)) as database, database:
        (config,) = database.execute("select config from runs").fetchone()
        changed = json.dumps(json.loads(config) | {"search": {"memory": "run"}})
        database.execute("update runs set config = ?", (changed,))
    return file


@pytest.fixture(scope="module")
def address(database: Path) -> Iterator[str]:
    with served(database.parent, "--write") as address:
        yield address.replace("token=secret", "token=writing")


@pytest.fixture
def page(address: str, browser: Browser) -> Iterator[Page]:
    with window(browser, address) as page:
        page.get_by_role("link", name="Inbox").click()
        yield page


def changed(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement)


def test_an_idea_is_put_in_by_keyboard_and_its_row_says_when_it_was_taken_in(page: Page, database: Path) -> None:
    page.get_by_role("heading", name="Inbox").wait_for()
    field = page.get_by_label("What to try")
    for _ in range(30):
        page.keyboard.press("Tab")
        if field.evaluate("one => one === document.activeElement"):
            break
    page.keyboard.type("rings around <b>the middle</b>")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("It is in the inbox")).to_be_focused(timeout=LONG_MS)
    row = page.get_by_role("row").filter(has_text="rings around <b>the middle</b>")
    expect(row).to_contain_text("waits")
    page.get_by_role("status").get_by_text("live").wait_for()
    page.wait_for_load_state("networkidle")
    changed(database, "insert into given_ideas values (1, 1, 9000001, 'rings', 11, 1.0)")
    changed(database, ONE_MORE_FACT)
    expect(row).to_contain_text("from candidate 12 on", timeout=LONG_MS)
    page.reload()
    expect(page.get_by_role("row").filter(has_text="rings")).to_have_count(1)


@pytest.mark.nightly
def test_what_was_typed_stays_after_a_mistake_and_a_commit_of_the_run(page: Page, database: Path) -> None:
    program = "\n  first = 'ä \u202e'\n\tlast = 1"
    page.get_by_label("Its text").fill(program)
    page.get_by_label("Numbers of ideas").fill("12 and 31")
    page.get_by_role("button", name="Say so").click()
    expect(page.get_by_role("alert")).to_be_focused(timeout=LONG_MS)
    expect(page.get_by_role("alert")).to_contain_text("Name up to 100 by their numbers")
    expect(page.get_by_label("Numbers of ideas")).to_have_value("12 and 31")
    page.get_by_label("Its text").fill(program)
    page.get_by_role("status").get_by_text("live").wait_for()
    page.wait_for_load_state("networkidle")
    changed(database, "insert into inbox (run_id, entry, text, at) values (1, 7, 'of somebody else', 1.0)")
    changed(database, ONE_MORE_FACT)
    page.get_by_text("of somebody else").wait_for()
    expect(page.get_by_label("Its text")).to_have_value(program)
    expect(page.get_by_label("Numbers of ideas")).to_have_value("12 and 31")
    page.get_by_label("What it is").fill("ours")
    page.get_by_role("button", name="Add the program").click()
    page.get_by_text("It is in the inbox").wait_for()
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("select text, program from inbox where entry = 8").fetchone() == (
            "ours",
            f"{program}\n",
        )
