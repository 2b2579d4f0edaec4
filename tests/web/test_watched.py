"""A run that goes on, watched in real windows: from its first candidate to its end, and over a server that dies."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from pace_async.observe import formatting
from pace_async.population.reading.reader import open_readonly
from tests.support.browsers import LONG_MS, port_of_its_own, served, serving, window
from tests.support.going_runs import going

CANDIDATES = 16
pytestmark = pytest.mark.long


def figure(page: Page, name: str) -> Locator:
    """The figure above its name on the page of a run."""
    return page.locator(".tile").filter(has=page.get_by_text(name, exact=True)).locator("b")


def shows(page: Page, candidates: int) -> None:
    expect(figure(page, "candidates")).to_have_text(str(candidates), timeout=LONG_MS)


def test_a_run_is_watched_in_two_windows_from_its_first_candidate_to_its_end(tmp_path: Path, browser: Browser) -> None:
    with (
        going(tmp_path, CANDIDATES) as run,
        served(tmp_path) as address,
        window(browser, address) as page,
    ):
        tree, status = page.context.new_page(), page.get_by_role("status")
        expect(status).to_have_text("live", timeout=LONG_MS)
        shows(page, 0)
        expect(page.get_by_text("running")).to_be_visible()
        page.evaluate("window.loaded = true")
        run.let(1)
        shows(page, 1)
        tree.goto(f"{address.partition('?')[0]}/tree")
        count = tree.locator("#count")
        expect(count).to_have_text("2 candidates", timeout=LONG_MS)
        tree.evaluate("window.loaded = true")
        run.let(7)
        shows(page, 8)
        expect(count).to_have_text("9 candidates", timeout=LONG_MS)
        run.let(CANDIDATES - 8)
        shows(page, CANDIDATES)
        expect(count).to_have_text(f"{CANDIDATES + 1} candidates", timeout=LONG_MS)
        expect(page.get_by_text("· done: ")).to_be_visible(timeout=LONG_MS)
        with open_readonly(tmp_path / "population.db") as reader:
            found = reader.status()
        assert found["state"] == "done" and found["groups_trained"] > 0
        expect(figure(page, "best score (maximized)")).to_have_text(formatting.score(found["best_score"]))
        groups = f"{found['groups_trained']} + {found['groups_skipped']}"
        expect(figure(page, "groups trained + skipped")).to_have_text(groups)
        assert page.evaluate("window.loaded") and tree.evaluate("window.loaded")  # neither was loaded again


@pytest.mark.nightly
def test_a_window_goes_on_when_the_server_was_killed_and_is_back(tmp_path: Path, browser: Browser) -> None:
    port = str(port_of_its_own())
    with (
        going(tmp_path, CANDIDATES) as run,
        serving(tmp_path, "--port", port) as (address, server),
        window(browser, address) as page,
    ):
        status = page.get_by_role("status")
        run.let(2)
        shows(page, 2)
        page.evaluate("window.loaded = true")
        server.kill()
        server.wait()
        expect(status).to_contain_text("not connected", timeout=LONG_MS)
        run.let(3)
        with served(tmp_path, "--port", port):
            shows(page, 5)
            expect(status).to_have_text("live", timeout=LONG_MS)
            assert page.evaluate("window.loaded")


@pytest.mark.nightly
def test_a_window_that_nobody_sees_holds_no_connection_and_catches_up(tmp_path: Path, browser: Browser) -> None:
    """A browser has six connections to one server, and each window that is seen holds one."""
    seen = "Object.defineProperty(document, 'hidden', {{ value: {}, configurable: true }}); "
    tell = "document.dispatchEvent(new Event('visibilitychange'))"
    with going(tmp_path, CANDIDATES) as run, served(tmp_path) as address, window(browser, address) as page:
        shows(page, 0)
        page.evaluate(seen.format("true") + tell)
        others = [page.context.new_page() for _ in range(7)]
        for other in others:
            other.goto(page.url)
            shows(other, 0)
            other.evaluate(seen.format("true") + tell)
        run.let(2)
        page.evaluate(seen.format("false") + tell)
        shows(page, 2)
        expect(figure(others[0], "candidates")).to_have_text("0")
