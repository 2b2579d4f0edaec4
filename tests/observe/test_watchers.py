"""Experiment loggers: what they get, and that none stops or slows a run."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection

from pace_async.errors import UsageError
from pace_async.events import Fact, GroupShipped
from pace_async.observe import bus as bus_module
from pace_async.observe.bus import Bus, observing
from pace_async.observe.fold import fold
from pace_async.observe.model import RunView
from pace_async.observe.watchers import choose, follower
from pace_async.observe.watchers.base import LoggedRun, Record, Watcher
from pace_async.observe.watchers.follower import WatcherDisplay, Writing
from pace_async.observe.watchers.records import LONGEST, SaidFor, completions_of, record_of
from pace_async.population.reading.load import find_run
from pace_async.population.reading.reader import open_readonly
from pace_async.population.reading.said import RolloutAnswers, said_of
from pace_async.population.store import Store
from tests.doubles.watchers import Down, Hangs, KeptRecords, Late, Refuses
from tests.support.observe_facts import BEGIN, fold_all, life
from tests.support.population_facts import HEADER, empty_population

EMPTY = RunView(HEADER)
LOGGED = LoggedRun("demo", "toy", BEGIN, None, {})


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may be slow. What ends in time is not the question here."""
    monkeypatch.setattr(follower, "LAST_S", 60.0)
    monkeypatch.setattr(bus_module, "CLOSE_S", 60.0)


def unheard(leases: Sequence[int]) -> Mapping[int, RolloutAnswers]:
    return {}


def directly(facts: Sequence[Fact], said: SaidFor = unheard) -> list[Record]:
    view, found = EMPTY, list[Record | None]()
    for fact in facts:
        view = fold(view, fact)
        found.append(record_of(fact, view, BEGIN, said))
    return [record for record in found if record is not None]


async def watched(watcher: Watcher, facts: Sequence[Fact], folder: Path) -> list[Record]:
    """The records that the watcher should get beside a run that commits these facts and ends."""
    bus, place = Bus(EMPTY), empty_population(folder)
    async with Store.open(place) as store:
        await store.create_run(HEADER)
        async with observing(bus, [WatcherDisplay("kept", watcher, LOGGED, place, "demo", EMPTY, 0)]):
            for fact in facts:
                await store.commit(fact)
                bus.publish(fact)
        said = await store.read(lambda connection: said_of(connection, find_run(connection, "demo"), range(100)))
    return directly(facts, lambda leases: {lease: said[lease] for lease in leases})


async def test_a_watcher_gets_every_record_in_order_with_all_axes(tmp_path: Path) -> None:
    kept, facts = KeptRecords(), list(life(4))
    records = await watched(kept, facts, tmp_path)
    assert (kept.begun, kept.closed) == ([("demo", False)], True)
    assert kept.records == records
    last, view = kept.records[-1], fold_all(EMPTY, facts)
    assert (last.candidates, last.update) == (view.candidates, view.learner.version)
    assert last.usd == view.spend_usd > 0
    assert [record.seconds for record in kept.records] == sorted(record.seconds for record in kept.records)
    assert view.best is not None and last.values["search/best_score"] == view.best.score


async def test_a_run_that_has_ended_gives_the_records_that_it_gave_live(tmp_path: Path) -> None:
    live, later = KeptRecords(), KeptRecords()
    await watched(live, list(life(5)), tmp_path)
    with open_readonly(tmp_path / "population.db") as reader:
        writing = Writing(later, LOGGED, reader, EMPTY)
        writing.go_on()
    assert later.records == live.records
    assert writing.written == len(live.records)
    assert any(record.completions for record in live.records)


async def test_a_database_that_is_away_for_a_moment_costs_no_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    live, later, asked = KeptRecords(), KeptRecords(), list[Sequence[int]]()
    await watched(live, list(life(5)), tmp_path)

    def away_at_first(connection: Connection, run_id: int, leases: Sequence[int]) -> Mapping[int, RolloutAnswers]:
        asked.append(leases)
        if len(asked) == 1:
            raise UsageError("the database is away")
        return said_of(connection, run_id, leases)

    monkeypatch.setattr(follower, "said_of", away_at_first)
    monkeypatch.setattr(follower, "BATCH", 3)
    with open_readonly(tmp_path / "population.db") as reader:
        writing = Writing(later, LOGGED, reader, EMPTY)
        with pytest.raises(UsageError, match="away"):
            writing.go_on()
        writing.go_on()
    assert later.records == live.records


async def test_a_log_goes_on_after_the_fact_at_which_a_resume_took_up_the_run(tmp_path: Path) -> None:
    facts, kept = list(life(5)), KeptRecords()
    records = await watched(KeptRecords(), facts, tmp_path)
    first = len(facts) // 2
    before = len(directly(facts[:first]))
    with open_readonly(tmp_path / "population.db") as reader:
        Writing(kept, LOGGED, reader, fold_all(EMPTY, facts[:first]), first + 1).go_on()  # 1: the header
    assert 0 < before < len(records)
    assert kept.records == records[before:]


async def test_a_watcher_that_is_down_is_reported_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    await watched(Down(), list(life(4)), tmp_path)
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == ["the log kept failed and gets nothing more, the run goes on: ConnectionError: the logger is away"]


async def test_a_watcher_that_refuses_records_is_not_taken_for_a_database_that_is_away(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    await watched(Refuses(), list(life(4)), tmp_path)
    assert caplog.messages == ["the log kept failed and gets nothing more, the run goes on: it has this run"]


async def test_a_watcher_that_hangs_is_left_at_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(follower, "LAST_S", 0.05)
    watcher = Hangs()
    await watched(watcher, list(life(4)), tmp_path)
    watcher.let_go.set()
    assert caplog.messages == ["the log kept did not finish within 0.05 s and was left"]


def test_a_completion_is_cut_and_one_that_is_not_known_is_empty() -> None:
    group = next(fact for fact in life(4) if isinstance(fact, GroupShipped))
    heard = RolloutAnswers(("first", "x" * LONGEST), "An experiment.", "ok", 1.5)
    known, unknown = completions_of(group, {group.leases[0]: heard})
    assert (known.experiment, known.score, len(known.completion)) == ("An experiment.", 1.5, LONGEST)
    assert (unknown.experiment, unknown.completion, unknown.reward) == ("", "", group.rewards[1])


async def test_a_log_that_is_written_later_says_itself_why_it_failed(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    await watched(Late(), list(life(4)), tmp_path)
    assert "the log kept failed and gets nothing more, the run goes on: it is full" in caplog.messages


def test_runs_of_one_name_made_at_different_times_have_different_ids_in_a_logger() -> None:
    one = LoggedRun("../odd näme", "toy", 1.25, None, {})
    assert one.id == replace(one, folder=Path("elsewhere")).id
    assert one.id != replace(one, began=1.5).id
    assert re.fullmatch(r"\.\._odd_n_me-[0-9a-f]{8}", one.id)


async def test_figures_that_are_no_numbers_are_left_out() -> None:
    facts = list(life(4))
    facts[1] = replace(facts[1], score=float("nan"), reward=float("inf"))  # type: ignore[arg-type]
    first = directly(facts)[0]
    assert not {"search/score", "search/reward"} & set(first.values)


def test_a_wrong_name_a_name_given_twice_and_a_missing_package_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="did you mean tensorboard"):
        choose.watchers_of(["tensorbord"])
    monkeypatch.setattr(choose, "find_spec", dict[str, object]().get)
    with pytest.raises(UsageError, match=r"pip install .*\[tensorboard\]'"):
        choose.watchers_of(["tensorboard"])
    monkeypatch.setattr(choose, "find_spec", str)
    with pytest.raises(UsageError, match="given twice"):
        choose.watchers_of(["tensorboard", "tensorboard=here"])
