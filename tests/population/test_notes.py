"""Pages of notes as rows: written with their cost in one transaction, read back equal, and part of no candidate."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.errors import PaceBug
from pace_async.events import (
    EpochInForce,
    ImplementerCalled,
    ImplementerReserved,
    LeaseReleased,
    NotesPage,
    RescoreBegan,
)
from pace_async.population.reading.reader import open_readonly
from pace_async.population.reading.written_notes import notes_of_run
from pace_async.population.store import Store
from pace_async.state.notes import page_seen
from tests.support.population_facts import HEADER, fresh, rescored, rollout

pytestmark = pytest.mark.usefixtures("both")
REMEMBERS = replace(HEADER, config={"search": {"memory": "run"}, "seed": 7})
PAGE = NotesPage(1, 2, None, "Worked:\n'hex'; drop table notes_pages\nFailed:\nrings\nOpen:\nmore")


def reserved(number: int, lease: int) -> ImplementerReserved:
    return ImplementerReserved(number, lease, "writer", 0.5, 5000.0, "notes")


def called(number: int, lease: int, page: NotesPage | None, usd: float = 0.25, at: float = 6000.0) -> ImplementerCalled:
    outcome = "ok" if page is not None else "unparsed"
    return ImplementerCalled(lease, "writer", outcome, 900, 300, usd, 2.0, at, number, role="notes", notes=page)


async def with_two_pages(store: Store) -> None:
    await store.commit(*rollout(1), *rollout(2))
    await store.commit(ImplementerCalled(2, "coder", "ok", 10, 5, 0.125, 1.0, 5500.0))
    await store.commit(reserved(1, 2))
    await store.commit(called(1, 2, PAGE))
    await store.commit(reserved(2, 2))
    await store.commit(called(2, 2, None, 0.0625))
    await store.commit(*rollout(3), reserved(3, 3))
    await store.commit(called(3, 3, replace(PAGE, number=2, candidates=3, from_group=4, text="the second")))


async def test_pages_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    async with fresh(tmp_path, REMEMBERS) as store:
        await with_two_pages(store)
        record, place = await store.load(), store.place
    assert record.run_state.notes == {1: PAGE, 2: NotesPage(2, 3, 4, "the second")}
    assert page_seen(record.run_state) == PAGE
    assert record.spend_usd == pytest.approx(0.6875) == record.run_state.spend_usd
    with open_readonly(place) as reader:
        notes = reader.ask(notes_of_run)
        rows = reader.query("select * from notes order by number")
    assert [(one.page.number, one.newest, one.model, one.cost_usd) for one in notes] == [
        (1, 2, "writer", 0.25),
        (2, 3, "writer", 0.25),
    ]
    assert rows[0] == {
        **{"run": "demo", "number": 1, "candidates": 2, "newest": 2, "model": "writer", "prompt_tokens": 900},
        **{"completion_tokens": 300, "cost_usd": 0.25, "seconds": 2.0, "at": 6000.0, "from_group": None},
        "text": PAGE.text,
    }


async def test_notes_are_spend_of_the_run_and_cost_of_no_candidate(tmp_path: Path) -> None:
    async with fresh(tmp_path, REMEMBERS) as store:
        await with_two_pages(store)
        place = store.place
    with open_readonly(place) as reader:
        spend = reader.query("select role, model, calls, usd from spend where role <> 'advisor' order by role")
        costs = reader.query("select candidate, cost_usd from leaderboard where candidate in (2, 3) order by candidate")
        shown, status = reader.show(2), reader.status()
        exported = [(row["candidate"], row["cost_usd"]) for row in reader.stream("candidates")]
        rollouts = [(row["lease"], row["cost_usd"]) for row in reader.stream("rollouts")]
    assert [tuple(row.values()) for row in spend] == [
        ("implementer", "coder", 1, 0.125),
        ("notes", "writer", 3, 0.5625),
    ]
    assert status["spend_by_role"] == {"implementer": 0.125, "advisor": 0.0, "notes": 0.5625}
    assert [tuple(row.values()) for row in costs] == [(2, 0.125), (3, 0.0)]
    assert shown["cost_usd"] == 0.125 and [call["model"] for call in shown["implementer_calls"]] == ["coder"]
    assert exported == [(0, 0.0), (1, 0.0), (2, 0.125), (3, 0.0)]
    assert rollouts == [(1, 0.0), (2, 0.125), (3, 0.0)]


async def test_a_page_has_one_number_and_a_call(tmp_path: Path) -> None:
    async with fresh(tmp_path, REMEMBERS) as store:
        await store.commit(*rollout(1), reserved(1, 1), called(1, 1, PAGE), reserved(2, 1))
        with pytest.raises(PaceBug, match="the record refuses"):
            await store.commit(called(2, 1, PAGE))
        assert (await store.query("select count(*) n from implementer_calls"))[0]["n"] == 1


async def test_what_was_written_before_a_corrected_evaluator_is_void_and_what_was_written_after_is_not(
    tmp_path: Path,
) -> None:
    async with fresh(tmp_path, REMEMBERS) as store:
        await store.commit(*rollout(1), reserved(1, 1), called(1, 1, PAGE, at=6000.0))
        await store.commit(LeaseReleased(1, "skipped", 6001.0), RescoreBegan(1, "digest", None, 7000.0))
        await store.commit(rescored(0, 1.0), rescored(1, 2.0), EpochInForce(1, 1, 7002.0))
        state = (await store.load()).run_state
        assert page_seen(state) is None and state.notes[1].candidates == 0
        second = replace(PAGE, number=2, candidates=1, text="anew")
        await store.commit(reserved(2, 1), called(2, 1, second, at=8000.0))
        state = (await store.load()).run_state
    assert page_seen(state) == second
