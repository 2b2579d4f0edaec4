"""No page of `pace web`, with its forms, has a barrier of level A or AA that axe-core finds: narrow and wide, light and
dark."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.support.browsers import LONG_MS, served
from tests.support.finished_runs import make_run, poison
from tests.support.pages import OF_A_RUN

AXE = Path(__file__).parent / "axe" / "node_modules" / "axe-core" / "axe.min.js"
LEVELS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
ASKED = f"""axe.run(document, {{runOnly: {list(LEVELS)}, resultTypes: ['violations']}}).then((found) =>
    [found.passes.length, ...found.violations.map((one) => `${{one.id}}: ${{one.nodes[0].html}}`)])"""
PAGES = (
    "/",
    "/compare",
    "/run/nosuch",
    *[f"/run/plain{part}" for part in (*OF_A_RUN, "/candidate/3")],
    "/run/hostile",
    "/run/hostile/spend",
    "/run/plain/inbox?done",
)
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm ci --prefix tests/web/axe")
    runs = tmp_path_factory.mktemp("accessible")
    make_run(runs / "plain")
    poison(make_run(runs / "hostile"))
    with closing(sqlite3.connect(runs / "plain" / "population.db")) as database, database:
        began = database.execute("select created_at from runs").fetchone()[0]
        rows = [(1, 900 + n, "engine", "timeout", "connection reset", None, began + n) for n in range(9)]
        database.executemany("insert into faults values (?, ?, ?, ?, ?, ?, ?)", rows)
    with served(runs, "--write") as address:
        yield address.replace("token=secret", "token=writing")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_no_page_has_a_barrier(address: str, browser: Browser, width: int, scheme: Literal["light", "dark"]) -> None:
    """The pages forbid scripts of others, so the policy is set aside for axe itself."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(LONG_MS)
    page.goto(address)
    found: dict[str, list[str]] = {}
    for path in PAGES:
        page.goto(address.split("/?")[0] + path)
        page.get_by_role("heading", level=1).first.wait_for()
        page.evaluate(AXE.read_text(encoding="utf-8"))
        passed, *barriers = page.evaluate(ASKED)
        assert passed > 0, path
        if barriers:
            found[path] = barriers
    page.get_by_label("What to try").fill("an idea that this run does not take")
    page.get_by_role("button", name="Add the idea").click()
    page.get_by_role("alert").wait_for()
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate(ASKED)[1:] == []
    context.close()
    assert found == {}
