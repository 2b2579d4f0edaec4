"""Sixty hostile texts wherever a model, a program or a service could have put them: every page shows them, and none
does anything in a real browser."""

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from pace_async.outside import sound
from pace_async.programs.compiled import digest_as_it_is
from tests.support.browsers import served, window
from tests.support.changed_runs import ONE_MORE_FACT
from tests.support.finished_runs import make_run, pace
from tests.support.hostile_texts import HOSTILE_TEXTS

NAMED = "<img src=x onerror=\"document.title=window.owned='owned'\">"
"""A run may be named so too: it is a valid name of a folder."""
pytestmark = pytest.mark.long
CANDIDATES = 20
"""Candidates that are looked at. Each has three of the texts as what it tried, wrote and failed with."""
FOUND = """() => ({
  scripts: [...document.scripts].map((one) => one.getAttribute("src")),
  handlers: [...document.querySelectorAll("*")].flatMap((one) =>
    one.getAttributeNames().filter((name) => name.startsWith("on") || name === "style")),
  elements: document.querySelectorAll(
    "iframe,object,embed,base,meta[http-equiv],img,image,use,animate,video,audio,math,template,noscript,style,plaintext,"
    + "x,marquee,details[ontoggle],body body,main main,#live ~ #live,#tree ~ #tree").length,
  away: [...document.querySelectorAll("[href],[src],[action],[formaction],[srcset]")]
    .map((one) => one.getAttribute("href") ?? one.getAttribute("src") ?? one.getAttribute("action") ?? "?")
    .filter((to) => !to.startsWith("data:,") && new URL(to, location.href).origin !== location.origin),
})"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    _poison(make_run(folder / "run") / "population.db")
    shutil.copytree(folder / "run", folder / NAMED)
    return folder


def _poison(population: Path) -> None:
    """Put the texts into the rows. The text n of the first twenty is that of candidate n + 1."""
    texts = list(enumerate(HOSTILE_TEXTS))
    with closing(sqlite3.connect(population)) as database, database:
        for place in range(CANDIDATES):
            said, wrote, failed = (HOSTILE_TEXTS[place + CANDIDATES * part] for part in range(3))
            of = (said, place + 1)
            database.execute("update experiments set description = ? where lease = ?", of)
            database.execute("update advisor_calls set text = ? where lease = ?", of)
            database.execute(
                "update candidates set program = ?, detail = ?, feedback = ?, mechanism = ?, metrics = ? "
                "where candidate = ?",
                (f"x = 1\n# {wrote}", failed, failed, said, json.dumps({wrote: 1.0}), place + 1),
            )
            program = f"x = 1\n# {wrote}"
            database.execute(
                "insert into practices (run_id, lease, program_digest, outcome, detail, score, metrics, printed,"
                " seconds, memoised, at) values (1, ?, ?, 'timeout', ?, null, ?, ?, 1.0, false, 1.0)",
                (place + 1, digest_as_it_is(sound(program)), failed, json.dumps({said: 1.0}), said),
            )
        best = database.execute("select candidate from candidates order by merit desc limit 1").fetchone()
        database.execute("update candidates set program = ? where candidate = ?", ("\n".join(HOSTILE_TEXTS), *best))
        database.execute("update ideas set description = ? || idea", (HOSTILE_TEXTS[0],))
        for number, said in texts:
            database.execute(
                "insert into faults values (1, ?, ?, ?, ?, null, 1.0)", (900 + number, f"stage {number}", said, said)
            )
            database.execute(
                "update evaluation_attempts set node = ?, machine = ? "
                "where rowid = (select rowid from evaluation_attempts order by rowid limit 1 offset ?)",
                (said, said, number),
            )
        skipped = "update groups set reason = ? where state = 'skipped'"
        database.execute(skipped, (HOSTILE_TEXTS[1],))
        database.execute("update run_states set reason = ?", (HOSTILE_TEXTS[2],))
        database.execute("update runs set name = ?, advisor = ?, implementer = ?", HOSTILE_TEXTS[3:6])


@pytest.fixture(scope="module")
def address(runs: Path) -> Iterator[str]:
    with served(runs) as address:
        yield address


@pytest.fixture
def page(address: str, browser: Browser) -> Iterator[Page]:
    """At the end `window` has checked that nothing was asked of another server, and that no script ran."""
    with window(browser, address) as page:
        yield page


def shown(page: Page) -> set[int]:
    """The numbers of the texts that the page shows from their beginning to their end. It has no element but ours."""
    found = page.evaluate(FOUND)
    assert set(found["scripts"]) <= {"/assets/live.js", "/assets/tree.js"}
    assert (found["handlers"], found["elements"], found["away"]) == ([], 0, []), page.url
    assert "owned" not in (page.title(), page.evaluate("window.owned"))
    said = page.evaluate("document.body.textContent")
    return {number for number in range(len(HOSTILE_TEXTS)) if f"hostile-{number:02}" in said}


def whole(page: Page) -> set[int]:
    """Those that are shown with their end too."""
    said = page.evaluate("document.body.textContent")
    return {number for number in shown(page) if f"end-{number:02}" in said}


def test_every_page_of_a_run_shows_the_texts_and_obeys_none(page: Page, address: str, runs: Path) -> None:
    origin = address.partition("/?")[0]
    every = set(range(len(HOSTILE_TEXTS)))
    with closing(sqlite3.connect(runs / "run" / "population.db")) as database:
        (machines,) = database.execute("select count(*) from evaluation_attempts where node is not null").fetchone()
    for name, parts in (("run", ("", "/islands", "/learner", "/tree", "/candidates")), (NAMED, ("", "/tree"))):
        for part in parts:
            page.goto(f"{origin}/run/{quote(name, safe='')}{part}")
            assert shown(page), part
    page.goto(f"{origin}/run/run/spend")
    assert shown(page) == every
    page.goto(f"{origin}/run/run/machines")
    assert shown(page) >= set(range(machines)) != set()
    for part in ("/", "/compare", f"/compare?run={quote(NAMED, safe='')}"):
        page.goto(origin + part)
        shown(page)
        assert NAMED in page.evaluate("document.body.textContent")


def test_each_candidates_page_shows_its_texts_to_their_end(page: Page, address: str) -> None:
    run = f"{address.partition('/?')[0]}/run/run"
    found: set[int] = set()
    for number in range(1, CANDIDATES + 1):
        page.goto(f"{run}/candidate/{number}")
        found |= whole(page)
    assert found == set(range(len(HOSTILE_TEXTS)))


def test_a_commit_of_such_a_text_and_a_click_in_the_tree_put_it_in_place_inertly(
    page: Page, address: str, runs: Path
) -> None:
    run = f"{address.partition('/?')[0]}/run/run"
    page.goto(f"{run}/candidates?column=experiment")
    page.get_by_role("status").get_by_text("live").wait_for()
    with closing(sqlite3.connect(runs / "run" / "population.db")) as database, database:
        database.execute("update experiments set description = ? || ' renewed' where lease = 30", (HOSTILE_TEXTS[7],))
        database.execute(ONE_MORE_FACT)
    page.get_by_text("renewed").wait_for()
    assert shown(page) >= set(range(CANDIDATES))
    page.goto(f"{run}/tree#candidate-7")
    page.locator("#beside").get_by_text("hostile-06", exact=False).first.wait_for()
    assert shown(page) >= {6, 26, 46}


def test_an_address_may_hold_such_a_text(page: Page, address: str) -> None:
    origin = address.partition("/?")[0]
    for said in HOSTILE_TEXTS[::4]:
        page.goto(f"{origin}/run/run/candidates?where={quote(said[:2000], safe='')}")
        page.get_by_role("alert").wait_for()
        assert page.get_by_label("Condition in SQL").input_value() != ""
        shown(page)
        page.goto(f"{origin}/run/{quote(said[:2000], safe='')}")
        page.get_by_text(re.compile("This server shows no run|There is no such page")).wait_for()
        shown(page)


@pytest.mark.nightly
def test_the_report_shows_them_and_obeys_none(browser: Browser, runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert pace("report", str(runs / "run"), "-o", str(file), cwd=tmp_path).returncode == 0
    with window(browser, file.as_uri()) as page:
        said = page.evaluate("document.body.textContent")
        assert "owned" not in (page.title(), page.evaluate("window.owned"))
        assert all(f"hostile-{number:02}" in said for number in range(len(HOSTILE_TEXTS)))
        assert page.evaluate("document.querySelectorAll('iframe,object,embed,base,img,video,audio,math').length") == 0
