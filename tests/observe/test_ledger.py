"""The account of a run from its rows, where the run was interrupted and went on under another setting."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.config import StopConfig
from pace_async.events import (
    CUT_OFF,
    GIVEN_UP,
    Fact,
    ImplementerCalled,
    ImplementerTry,
    RunStateChanged,
    SettingChanged,
)
from pace_async.interface.standing import standing_of
from pace_async.observe.fold import fold
from pace_async.observe.history import view_of
from pace_async.observe.in_force import in_force
from pace_async.observe.ledger import Ledger, ledger_of_rows
from pace_async.observe.model import RunView
from pace_async.observe.plain import figures
from pace_async.observe.roofline import advice, short_advice
from pace_async.observe.search_sections import failing_or_bottleneck
from pace_async.observe.summary import closing_words
from pace_async.population.reading.reader import open_readonly
from pace_async.population.reading.timings import timings_of
from pace_async.runtime.run_paths import RunPaths
from tests.support.population_facts import HEADER, advised, evaluated, fresh, opened


def from_to(lease: int, begin: float, end: float, island: int = 1) -> tuple[Fact, Fact]:
    return replace(opened(lease, island), at=begin), replace(evaluated(lease, island), at=end, seconds=4.0)


async def test_an_interrupted_rollout_is_left_out_of_the_durations(tmp_path: Path) -> None:
    begun, done = from_to(1, 100.0, 110.0)
    cut, late = from_to(2, 105.0, 90_010.0, island=2)
    async with fresh(tmp_path) as store:
        await store.commit(RunStateChanged("running", "", 100.0), begun, advised(1), done)
        await store.commit(cut, advised(2, 2), RunStateChanged("interrupted", "", 120.0))
        await store.commit(RunStateChanged("running", "", 90_000.0), late, RunStateChanged("done", "", 90_020.0))
    with open_readonly(tmp_path / "population.db") as reader:
        rows = ledger_of_rows(reader.ask(timings_of), replace(HEADER, objective="none"))
        assert ledger_of_rows(reader.ask(timings_of), HEADER)["advice"] is None  # it may be the learner, not timed yet
    assert rows["candidates_per_hour"] == pytest.approx(3600.0 * 2 / 40.0)
    assert rows["slot_utilisation"] == pytest.approx((10.0 + 10.0) / (HEADER.threads * 40.0))
    assert rows["binding"] == "threads"
    assert rows["roofline"] == pytest.approx(3600.0 * HEADER.threads / 10.0)


def test_what_a_resume_takes_over_keeps_its_threads_busy_and_times_no_rollout() -> None:
    begun, done = from_to(1, 100.0, 110.0)
    cut, late = from_to(2, 105.0, 90_010.0, island=2)
    ledger = Ledger()
    for fact in (begun, advised(1), done, cut, advised(2, 2)):
        ledger = ledger.after(fact)
    resumed = ledger.resumed(90_000.0)
    assert resumed.utilisation(2, 10.0, 90_010.0) == pytest.approx(0.5)
    ended = resumed.after(late)
    assert (ended.busy, ended.carried, ended.rollouts) == (10.0, {}, ledger.rollouts)
    again = resumed.resumed(95_000.0).after(replace(late, at=95_002.0))
    assert (again.busy, again.carried) == (2.0, {})


async def test_the_evaluation_slots_in_force_are_those_of_the_last_resume(tmp_path: Path) -> None:
    header = replace(HEADER, objective="none", config={"evaluation": {"slots": 8}})
    begun, done = from_to(1, 100.0, 104.0)
    async with fresh(tmp_path) as store:
        await store.commit(RunStateChanged("running", "", 100.0), begun, advised(1), done)
        with open_readonly(tmp_path / "population.db") as reader:
            before = ledger_of_rows(reader.ask(timings_of), header)
        await store.commit(SettingChanged("evaluation.slots", "8", "1", 110.0))
    with open_readonly(tmp_path / "population.db") as reader:
        after = ledger_of_rows(reader.ask(timings_of), in_force(header, reader.standing().changes))
    assert before["binding"] == "threads"
    assert after["binding"] == "evaluation slots"
    assert after["roofline"] == pytest.approx(3600.0 / 4.0)


@pytest.mark.parametrize("outcome", [GIVEN_UP, CUT_OFF])
async def test_calls_that_the_run_gave_up_itself_say_nothing_of_the_service(tmp_path: Path, outcome: str) -> None:
    begun, done = from_to(1, 100.0, 190.0)
    calls = [ImplementerCalled(1, "m", outcome, 5, 0, 0.5, 1.0, 100.0 + at) for at in range(8)]
    facts = [RunStateChanged("running", "", 100.0), begun, advised(1), *calls, done]
    ledger, view = Ledger(), RunView(HEADER, StopConfig())
    for fact in facts:
        ledger, view = ledger.after(fact), fold(view, fact)
    assert (ledger.answers, view.unanswered) == ((), 0)
    async with fresh(tmp_path) as store:
        await store.commit(*facts)
    with open_readonly(tmp_path / "population.db") as reader:
        assert reader.ask(timings_of).answers == ()


@pytest.mark.parametrize("kind", ["unchanged", "bad_path"])
async def test_an_agent_that_left_nothing_of_use_answered(tmp_path: Path, kind: str) -> None:
    begun, done = from_to(1, 100.0, 190.0)
    tries = [ImplementerTry(number, "claude", kind, "x", None, "y") for number in range(1, 9)]
    calls = [ImplementerCalled(1, "claude", kind, 0, 0, 0.5, 1.0, 100.0 + it.number, tried=it) for it in tries]
    facts = [RunStateChanged("running", "", 100.0), begun, advised(1), *calls, done]
    view = RunView(HEADER, StopConfig())
    for fact in facts:
        view = fold(view, fact)
    assert view.unanswered == 0
    async with fresh(tmp_path) as store:
        await store.commit(*facts)
    with open_readonly(tmp_path / "population.db") as reader:
        assert reader.ask(timings_of).answers == (True,) * 8


async def test_calls_without_an_answer_replace_the_advice_on_the_screen_and_in_status(tmp_path: Path) -> None:
    """The waits for them are part of the rollouts, so more threads would only wait too."""
    begun, done = from_to(1, 100.0, 190.0)
    calls = [
        ImplementerCalled(1, "m", "server_error" if at < 4 else "ok", 5, 0, 0.0, 1.0, 100.0 + at) for at in range(5)
    ]
    facts = [RunStateChanged("running", "", 100.0), begun, advised(1), *calls, done]
    header = replace(HEADER, objective="none")
    ledger = Ledger()
    for fact in facts:
        ledger = ledger.after(fact)
    limits = ledger.limits(header)
    assert limits is not None
    assert advice(limits, 2).startswith("80 % of the last calls got no answer")
    assert short_advice(limits)[0] == "80 % of calls unanswered: see to the service first"
    async with fresh(tmp_path) as store:
        await store.commit(*facts)
    with open_readonly(tmp_path / "population.db") as reader:
        assert ledger_of_rows(reader.ask(timings_of), header)["advice"] == advice(limits, 2)
    answered = [ImplementerCalled(1, "m", "ok", 5, 9, 0.0, 1.0, 200.0 + at) for at in range(64)]
    for fact in answered:
        ledger = ledger.after(fact)
    limits = ledger.limits(header)
    assert limits is not None
    assert advice(limits, 2).startswith("More threads would help")


async def test_the_summary_of_a_resumed_run_advises_what_status_does(tmp_path: Path) -> None:
    """A resume goes on from what was timed, and both know the settings that it changed."""
    header = replace(HEADER, objective="none", config={"evaluation": {"slots": 8}})
    first, second = from_to(1, 100.0, 110.0), from_to(2, 205.0, 210.0)
    resumed = [SettingChanged("evaluation.slots", "8", "1", 200.0), RunStateChanged("running", "", 200.0)]
    facts = [second[0], advised(2), second[1], RunStateChanged("done", "", 220.0)]
    async with fresh(tmp_path, header) as store:
        await store.commit(RunStateChanged("running", "", 100.0), first[0], advised(1), first[1])
        await store.commit(RunStateChanged("interrupted", "", 120.0), *resumed)
        record = await store.load()
        shown = replace(record, header=in_force(record.header, record.changes))
        view = await view_of(shown, StopConfig(), store)
        await store.commit(*facts)
    for fact in (RunStateChanged("running", "", 200.0), *facts):
        view = fold(view, fact)
    with open_readonly(tmp_path / "population.db") as reader:
        status = standing_of(RunPaths(tmp_path), reader)
    assert status["binding"] == "evaluation slots" and status["roofline"] == pytest.approx(3600.0 / 4.0)
    [speed] = [line for line in closing_words(view, tmp_path, 220.0) if line.startswith("  speed")]
    assert status["advice"] and speed.endswith(status["advice"])


async def test_threads_without_work_are_no_bottleneck(tmp_path: Path) -> None:
    """Screen, summary and status say so, where a run of one candidate was advised to take more threads."""
    header = replace(HEADER, objective="none")
    facts = [RunStateChanged("running", "", 100.0), *from_to(1, 108.0, 110.0), RunStateChanged("done", "", 110.0)]
    view = RunView(header, StopConfig())
    async with fresh(tmp_path, header) as store:
        for fact in facts:
            view = fold(view, fact)
        await store.commit(facts[0], facts[1], advised(1), *facts[2:])
    said = "Threads were idle 90 % of the time: more would not help."
    [speed] = [line for line in closing_words(view, tmp_path, 110.0) if line.startswith("  speed")]
    assert speed.endswith(f"threads 10 % busy. {said}")
    assert failing_or_bottleneck(view, 110.0, 200).plain == "threads idle 90 % of the time: more would not help"
    assert "slowed by" not in figures(view, 110.0)
    with open_readonly(tmp_path / "population.db") as reader:
        status = standing_of(RunPaths(tmp_path), reader)
    assert (status["advice"], status["binding"]) == (said, "threads")
