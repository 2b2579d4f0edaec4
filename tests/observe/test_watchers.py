"""Experiment loggers: what they get, and that none stops or slows a run."""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.events import Fact, GroupShipped
from pace_async.observe.bus import Bus, observing
from pace_async.observe.fold import fold, fold_all
from pace_async.observe.model import RunView
from pace_async.observe.watchers import choose, thread
from pace_async.observe.watchers.base import LoggedRun, Record, Watcher
from pace_async.observe.watchers.records import record_of
from pace_async.observe.watchers.replay import replay
from pace_async.observe.watchers.texts import LONGEST, OpenTexts, completions_of
from pace_async.observe.watchers.thread import WatcherDisplay
from pace_async.population.reading.following import facts_of
from pace_async.population.reading.load import find_run
from pace_async.population.reading.said import Said, said_of, said_of_open
from pace_async.population.store import Store
from tests.doubles.watchers import Down, Hangs, KeptRecords, Late
from tests.support.observe_facts import BEGIN, life
from tests.support.population_facts import HEADER, empty_population

pytestmark = pytest.mark.anyio
EMPTY = RunView(HEADER)
LOGGED = LoggedRun("demo", "toy", BEGIN, None, {})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def directly(facts: Sequence[Fact]) -> list[Record]:
    view, found, texts = EMPTY, list[Record | None](), OpenTexts()
    for fact in facts:
        view = fold(view, fact)
        texts.take(fact)
        found.append(record_of(fact, view, BEGIN, texts.shipped))
    return [record for record in found if record is not None]


async def watched(watcher: Watcher, facts: Sequence[Fact], capacity: int = thread.CAPACITY) -> WatcherDisplay:
    """The watcher beside a run that publishes these facts and ends."""
    bus = Bus(EMPTY)
    display = WatcherDisplay("kept", watcher, LOGGED, capacity)
    async with observing(bus, [display]):
        for fact in facts:
            bus.publish(fact)
    return display


async def test_a_watcher_gets_every_record_in_order_with_all_axes() -> None:
    kept, facts = KeptRecords(), list(life(4))
    display = await watched(kept, facts)
    assert (kept.begun, kept.closed, display.dropped) == ([("demo", False)], True, 0)
    assert kept.records == directly(facts)
    last, view = kept.records[-1], fold_all(EMPTY, facts)
    assert (last.candidates, last.update) == (view.candidates, view.learner.version)
    assert last.usd == view.spend_usd > 0
    assert [record.seconds for record in kept.records] == sorted(record.seconds for record in kept.records)
    assert view.best is not None and last.values["search/best_score"] == view.best.score


async def test_the_rows_of_a_run_give_the_records_that_it_gave_live(tmp_path: Path) -> None:
    facts = list(life(5))
    async with Store.open(empty_population(tmp_path)) as store:
        await store.create_run(HEADER)
        await store.commit(*facts)
        entries = await store.read(lambda connection: list(facts_of(connection, find_run(connection, "demo"))))
        said = await store.read(lambda connection: said_of(connection, find_run(connection, "demo"), range(100)))
        still = await store.read(lambda connection: said_of_open(connection, find_run(connection, "demo")))
    kept = KeptRecords()
    found = [entry.fact for entry in entries]
    assert replay(kept, LOGGED, HEADER, found, lambda leases: {lease: said[lease] for lease in leases}) == len(
        kept.records
    )
    assert kept.records == directly(facts)
    assert any(record.completions for record in kept.records)
    texts = OpenTexts()
    for fact in facts:
        texts.take(fact)
    assert texts.open == still  # what a resume begins with is what the run would have gone on with
    assert (kept.begun, kept.closed) == ([("demo", True)], True)


async def test_a_watcher_that_is_down_is_reported_once_and_its_loss_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    facts = list(life(4))
    display = await watched(Down(), facts)
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told[0] == "the log kept failed and gets nothing more, the run goes on: ConnectionError: the logger is away"
    assert len(told) == 2
    assert display.dropped == len(directly(facts))
    assert told[1] == f"the log kept lost {display.dropped} records"


async def test_a_watcher_that_hangs_costs_only_its_records(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread, "LAST_S", 0.05)
    watcher, facts = Hangs(), list(life(4))
    records = len(directly(facts))
    display = WatcherDisplay("kept", watcher, LOGGED, capacity=3)
    view, given = EMPTY, 0
    for fact in facts:
        view = fold(view, fact)
        display.take(fact, view)
        given += record_of(fact, view, BEGIN) is not None
        if given == 1:
            assert watcher.entered.wait(30)  # it holds the first record, and three more fit into the buffer
    assert (given, display.dropped) == (records, records - 4)
    await display.close(view, BEGIN)
    watcher.let_go.set()
    told = " | ".join(record.getMessage() for record in caplog.records)
    assert told.count("too slow and loses records") == 1
    assert "did not finish within" in told
    assert f"lost {records - 1} records" in told


def test_a_group_shipped_after_a_resume_has_what_was_said_before_it() -> None:
    group = next(fact for fact in life(4) if isinstance(fact, GroupShipped))
    heard = Said(("first", "x" * LONGEST), "An experiment.", "ok", 1.5)
    texts = OpenTexts({group.leases[0]: heard, 99: heard})
    texts.take(group)
    known, unknown = completions_of(group, texts.shipped(group.leases))
    assert (known.experiment, known.score, len(known.completion)) == ("An experiment.", 1.5, LONGEST)
    assert (unknown.experiment, unknown.completion, unknown.reward) == ("", "", group.rewards[1])
    assert set(texts.open) == {99}


async def test_a_log_that_is_written_later_says_itself_what_it_lost(caplog: pytest.LogCaptureFixture) -> None:
    facts = list(life(4))
    display = await watched(Late(), facts)
    assert display.dropped == len(directly(facts))
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
