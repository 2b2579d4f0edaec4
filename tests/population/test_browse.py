"""The table of candidates, and the mark that a commit leaves, in both kinds of database."""

from collections.abc import Generator
from pathlib import Path

import anyio
import pytest

from pace_async.errors import UsageError
from pace_async.population.connect import Place
from pace_async.population.reading.browse import COLUMNS, Page, Selection
from pace_async.population.reading.reader import open_readonly
from tests.support.population_facts import BOTH, fresh, populations_of, rollout

RUN = "demo"


@pytest.fixture(params=BOTH)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Path]:
    with populations_of(request):
        yield tmp_path


async def _small_run(folder: Path) -> Place:
    async with fresh(folder) as store:
        for lease in range(1, 12):
            await store.commit(*rollout(lease))
        return store.place


def _browse(place: Place, chosen: Selection, first: int = 0, most: int = 100) -> Page:
    with open_readonly(place, RUN) as reader:
        return reader.browse(chosen, first, most)


def test_rows_come_in_order_page_by_page_and_meet_the_condition(folder: Path) -> None:
    place = anyio.run(_small_run, folder)
    every = _browse(place, Selection())
    assert [row["candidate"] for row in every.rows] == list(range(11, -1, -1)) and every.found == 12
    assert all(tuple(row) == COLUMNS for row in every.rows)
    upwards = Selection("candidate between 2 and 9 and experiment like '%layout%'", "candidate", descending=False)
    assert [row["candidate"] for row in _browse(place, upwards, 3, 2).rows] == [5, 6]
    assert _browse(place, upwards, 3, 2).found == 8


@pytest.mark.long
@pytest.mark.parametrize("column", COLUMNS)
def test_each_column_can_be_sorted_and_named_in_a_condition(tmp_path: Path, column: str) -> None:
    place = anyio.run(_small_run, tmp_path)
    for descending in (False, True):
        assert _browse(place, Selection("", column, descending)).found == 12
    known = _browse(place, Selection(f"{column} is not null")).found
    assert known + _browse(place, Selection(f"{column} is null")).found == 12


def test_a_condition_cannot_change_anything_or_run_long(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = anyio.run(_small_run, folder)
    for where in ("1=1) ; delete from candidates; select (1", "score >", "absent = 1"):
        with pytest.raises(UsageError):
            _browse(place, Selection(where))
    with pytest.raises(UsageError, match="no column"):
        _browse(place, Selection("", "score; drop table runs"))
    monkeypatch.setattr("pace_async.population.reading.browse.PAGE_S", 0.2)
    crossed = ", ".join(f"candidates c{n}" for n in range(12))
    with pytest.raises(UsageError, match=r"longer than 0\.2 s$"):
        _browse(place, Selection(f"(select count(*) from {crossed}) > 0"))
    assert _browse(place, Selection()).found == 12


def test_every_commit_leaves_another_mark(folder: Path) -> None:
    async def marks() -> list[str]:
        found: list[str] = []
        async with fresh(folder) as store:
            with open_readonly(store.place, RUN) as reader:
                for lease in range(1, 6):
                    await store.commit(*rollout(lease))
                    found.append(reader.mark())
        return found

    assert len(set(anyio.run(marks))) == 5
