"""Runs that began without a journal: their facts are inferred from their rows, and become their journal once."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.errors import PaceBug
from pace_async.events import SettingChanged
from pace_async.population.checking import check_population
from pace_async.population.connect import Place, engine
from pace_async.population.reading.importing.order import Step, in_order
from pace_async.population.reading.journal import JournalEntry, entries_of, has_journal
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store
from tests.support.every_fact import change, committed, one_of_each, problems
from tests.support.population_facts import HEADER, fresh, opened, rollout, seed_program

FORGET = "delete from journal"


def facts_in(place: Place, after: int = 0) -> list[JournalEntry]:
    reader = engine(place, "read")
    with reader.begin() as connection:
        entries = list(entries_of(connection, 1, after))
    reader.dispose()
    return entries


@pytest.mark.long
@pytest.mark.usefixtures("both")
async def test_the_first_commit_gives_a_run_its_journal_and_the_next_ones_go_on_with_it(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        await committed(store, one_of_each()[:-3])
        place = store.place
    change(place, FORGET, "delete from blobs")
    inferred = facts_in(place)
    assert facts_in(place, 9) == inferred[9:]
    async with Store.open(place) as store:
        await store.standing("demo")
        assert not await store.read(lambda connection: has_journal(connection, store.run_id)), "reading writes nothing"
        await store.commit(opened(6, 2))
        await store.commit(*rollout(8, 3))
    entries = facts_in(place)
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert entries[: len(inferred)] == inferred
    assert [entry.fact for entry in entries[len(inferred) :]] == [opened(6, 2), *rollout(8, 3)]
    assert problems(place) == []


async def test_a_run_whose_rows_no_facts_give_goes_on_without_a_journal(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        await store.commit(*rollout(1))
        place = store.place
    change(place, FORGET, "update advisor_calls set oldest_version = 5")
    async with Store.open(place) as store:
        await store.load("demo")
        await store.commit(*rollout(2))
        assert not await store.read(lambda connection: has_journal(connection, store.run_id))
        assert await store.query("select count(*) as n from blobs") == [{"n": 0}]
    assert [entry.fact for entry in facts_in(place)][-3:] == list(rollout(2))
    with open_readonly(place) as reader:
        checks = {check.name: check for check in check_population(reader)}
    assert checks["journal (demo)"].ok and "earlier version" in checks["journal (demo)"].found


async def test_a_refused_first_commit_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        await store.commit(*rollout(1))
        place = store.place
    change(place, FORGET)
    async with Store.open(place) as store:
        await store.load("demo")
        with pytest.raises(PaceBug):
            await store.commit(opened(1))
        assert not await store.read(lambda connection: has_journal(connection, store.run_id))
        await store.commit(opened(2))
    assert [entry.fact for entry in facts_in(place)][-1] == opened(2)
    assert problems(place) == []


def test_facts_come_by_their_times_and_after_what_they_rest_on() -> None:
    first, second = Step(("opened", 1, 0), 5.0, 1, opened(1)), Step(("opened", 2, 0), 5.0, 2, opened(2))
    early = Step(("advised", 2, 0), 1.0, 2, None, (second.key, ("acted", 2, 0)))
    later = Step(("opened", 3, 0), 7.0, 3, opened(3))
    assert in_order([later, early, second, first]) == [first, second, early, later]
    with pytest.raises(PaceBug, match="rest on each other"):
        in_order([Step(("opened", 1, 0), 5.0, 1, None, (early.key,)), replace(early, after=(first.key,))])


async def test_the_bound_of_the_start_is_that_before_the_first_change(tmp_path: Path) -> None:
    raised = [SettingChanged("staleness.max_staleness", str(n), str(n + 1), 9.0 + n) for n in (2, 3)]
    async with fresh(tmp_path) as store:
        await store.commit(*raised)
        place = store.place
    change(place, FORGET)
    assert [entry.fact for entry in facts_in(place)] == [HEADER, *raised, seed_program()]
