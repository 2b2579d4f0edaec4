"""The page of islands: what each found, and every action with its reason."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from starlette.testclient import TestClient

from pace_async.population.reading.reader import open_readonly
from pace_async.web.app import application
from pace_async.web.runs import OpenRun
from tests.support.finished_runs import make_run
from tests.support.island_runs import make_island_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_island_run(tmp_path_factory.mktemp("islands"))


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[str]:
    yield asked(folder)


def asked(folder: Path) -> str:
    with open_readonly(folder / "population.db") as reader:
        runs = {"run": OpenRun(reader)}
        app = application(runs, token=None, hosts=frozenset(("testserver",)), stopping=anyio.Event())
        answer = TestClient(app).get("/run/run/islands")
    assert answer.status_code == 200
    return answer.text


def rows(folder: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "population.db")) as database:
        return database.execute(statement).fetchall()


def test_each_island_has_a_drawing_and_its_best_candidate(page: str, folder: Path) -> None:
    counted = rows(
        folder, "select island, count(*), count(score), max(score) from candidates where island > 0 group by 1"
    )
    assert len(counted) == 3
    for island, candidates, scored, best in counted:
        assert f"<h3>Island {island}</h3>" in page
        first = f"select min(candidate) from candidates where island = {island} and score = {best}"
        ((candidate,),) = rows(folder, first)
        line = rf"<td>{island}</td><td class=\"number\">{candidates}</td><td>{scored}</td>.*?#{candidate}</a>"
        assert re.search(line, page), line


def test_every_action_is_a_line_in_its_drawing_and_a_row_with_its_reason(page: str, folder: Path) -> None:
    acted = rows(folder, "select lease, island, candidate from actions order by lease desc")
    assert acted
    table = page.split("When an island had stopped improving")[1]
    assert re.findall(r"<tr><td><a href=\"[^\"]*/(\d+)\">", table) == [str(lease) for lease, *_ in acted]
    assert table.count("drawn with probability") == len(acted)
    complete = {candidate for (candidate,) in rows(folder, "select candidate from candidates")}
    assert page.count('class="acted"') == sum(lease in complete for lease, *_ in acted)


def test_a_run_whose_islands_never_acted_says_so(tmp_path: Path) -> None:
    page = asked(make_run(tmp_path / "run"))
    assert "No island went back or crossed over with another." in page
    assert 'class="acted"' not in page
