"""Stages that fail at every try and never end: few tries, nothing lost, a report, and an end when patience is over."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from pace_async.errors import GaveUp
from pace_async.events import FaultSeen, LeaseAborted
from pace_async.observe.fold import fold
from pace_async.observe.layout import frame
from pace_async.observe.model import RunView
from pace_async.observe.plain import figures
from pace_async.population.memory import MemoryPopulation
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.durations import Durations
from pace_async.simulate.runs import FAULTLESS, TINY_TASK, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import Fails, World, never
from pace_async.simulate.virtual import VirtualClock, run_virtually
from tests.doubles.clocks import Jumping
from tests.support.observe_facts import fold_all, life
from tests.support.population_facts import HEADER
from tests.support.simulated_runs import settings

SHAPE: dict[str, Any] = {"search__threads": 6, "learner__group_size": 4, "learner__k": 2, "stop__candidates": 24}


class Run:
    """One run under virtual time, driven by one process after the other."""

    def __init__(self, folder: Path, **overrides: object) -> None:
        self.folder, self.config = folder, settings(**{**SHAPE, **overrides})
        self.population = MemoryPopulation(header_of(self.config, TINY_TASK))
        self.time, self.state = 1000.0, "created"
        run_virtually(lambda: self.population.commit(seed_program(TINY_TASK)))

    def live(self, fails: Fails = never, clock: VirtualClock | None = None, stop_at: float | None = None) -> World:
        """Drive it to its end, or to `stop_at`, where it is interrupted once. Returns its world. Raises GaveUp."""
        world = World(durations=Durations(1, 60.0, 0.0, None, 3.0, 2.0, 0.2), fails=fails)
        record = self.population.load()
        served = record.run_state.served
        world.serve(served, self.folder / "versions" / f"{served:06d}" if served else None)

        async def process() -> None:
            core = SimulatedRun(
                self.config, TINY_TASK, clock or VirtualClock(), world, self.folder, FAULTLESS, Bytes()
            ).core(record, self.population)
            ended: BaseException | None = None
            try:
                async with anyio.create_task_group() as tasks:
                    if stop_at is not None:

                        async def interrupt(seconds: float) -> None:
                            await anyio.sleep(seconds)
                            core.stop("interrupted")

                        tasks.start_soon(interrupt, stop_at)
                    self.state = await drive(core)
                    tasks.cancel_scope.cancel()
            except* GaveUp as gave_up:
                ended = gave_up.exceptions[0]
            finally:
                self.time = anyio.current_time()
            if ended is not None:
                raise ended from None

        run_virtually(process, start=self.time)
        return world

    def rows(self, sql: str) -> list[dict[str, Any]]:
        return [dict(row) for row in run_virtually(lambda: self.population.query(sql))]

    def number(self, sql: str) -> Any:
        [row] = self.rows(sql)
        [value] = row.values()
        return value


def always(stage: str) -> Fails:
    return lambda name, _: name == stage


@pytest.mark.fault("Sick, not dead", "an evaluator that fails every time: few tries, no program lost, ends by patience")
@pytest.mark.parametrize("threads", [1, 6])
def test_a_failing_evaluator_is_tried_a_few_times_and_every_program_is_kept(tmp_path: Path, threads: int) -> None:
    run = Run(tmp_path, search__threads=threads, faults__patience_s=900.0)
    with pytest.raises(GaveUp) as gave_up:
        run.live(always("evaluate"))
    said = str(gave_up.value)
    assert said.startswith(
        "The evaluation failed at every try for 900 s (the last: evaluation: simulated: evaluate call"
    )
    assert "pace task check" in said and "pace resume" in said
    assert "\n" not in said
    assert run.number("select count(*) from leases") <= threads + 1, "leases are kept, not made anew"
    assert run.number("select count(*) from advisor_calls") <= 3 * (threads + 1)
    told = run.rows("select kind, count(*) n from faults where stage = 'evaluate' group by kind order by kind")
    counts = {row["kind"]: row["n"] for row in told}
    assert counts["stage_paused"] == 1
    assert 3 <= counts["evaluation"] <= threads + 40
    kept = run.rows("select lease from leases where stage = 'advised' and state = 'open'")
    run.live()
    assert run.state == "done"
    ended = {row["lease"] for row in run.rows("select lease from candidates where lease is not null")}
    assert {row["lease"] for row in kept} <= ended
    assert kept


@pytest.mark.fault("Sick, not dead", "an evaluator that fails for a while: the same programs are evaluated again")
def test_when_the_evaluator_is_back_the_programs_that_waited_are_evaluated_and_none_is_made_twice(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path)
    world = run.live(lambda stage, call: stage == "evaluate" and call <= 12)
    assert run.state == "done"
    assert run.number("select count(*) from leases where state = 'aborted'") == 0
    assert world.calls["implement"] == 24
    assert world.calls["evaluate"] == 24 + 12
    kinds = [row["kind"] for row in run.rows("select kind from faults order by number")]
    assert kinds.count("evaluation") == 12
    assert kinds.count("stage_paused") == kinds.count("stage_back") == 1


@pytest.mark.parametrize("stage", ["advise", "implement"])
def test_a_failing_advisor_or_implementer_ends_the_run_too(tmp_path: Path, stage: str) -> None:
    run = Run(tmp_path, faults__patience_s=900.0)
    with pytest.raises(GaveUp, match=r"^The (advisor|implementer) failed at every try for 900 s"):
        run.live(always(stage))
    assert run.number("select count(*) from leases") <= 20
    run.live()
    assert run.state == "done"


@pytest.mark.fault("Sick, not dead", "rollouts that are aborted one after the other end the run")
def test_rollouts_that_are_aborted_in_a_row_end_the_run_before_its_patience(tmp_path: Path) -> None:
    """Every evaluation fails, and the patience is long."""
    run = Run(tmp_path, faults__patience_s=1e9, faults__max_aborted=7)
    with pytest.raises(GaveUp, match=r"^7 rollouts in a row were aborted without a score \(the last: evaluation:|^7 "):
        run.live(always("evaluate"))
    assert run.number("select count(*) from leases where state = 'aborted'") == 7
    reasons = run.rows("select distinct reason from run_states where state = 'gave_up'")
    assert len(reasons) == 1


def test_rollouts_that_are_aborted_now_and_then_do_not(tmp_path: Path) -> None:
    run = Run(tmp_path, faults__retries=0, faults__max_aborted=4, stop__candidates=40)
    run.live(lambda stage, call: stage == "evaluate" and call % 4 == 0)
    assert run.state == "done"
    assert run.number("select count(*) from leases where state = 'aborted'") >= 4


@pytest.mark.fault("Sick, not dead", "a run that is ending does not wait for a stage that fails")
def test_an_interrupted_run_leaves_the_leases_of_a_failing_stage_open(tmp_path: Path) -> None:
    run = Run(tmp_path, faults__patience_s=1e6)
    run.live(always("evaluate"), stop_at=2000.0)
    assert run.state == "interrupted"
    assert run.time < 1000.0 + 2000.0 + 60.0 + 1.0, "one try may still go to its end"
    assert run.number("select count(*) from leases where state = 'open'") == 6
    run.live()
    assert run.state == "done"


@pytest.mark.fault("Sick, not dead", "a clock that jumps")
def test_a_clock_that_jumps_ends_no_patience_and_no_minutes(tmp_path: Path) -> None:

    def trouble(stage: str, call: int) -> bool:
        return stage in ("evaluate", "learn", "publish") and call % 3 == 0

    run = Run(tmp_path, stop__minutes=600.0, faults__patience_s=300.0)
    run.live(trouble, Jumping())
    assert run.state == "done"
    assert run.number("select count(*) from candidates where lease is not null") == 24


@pytest.mark.fault("Sick, not dead", "a stage that fails is on the screen, and no other advice is")
def test_a_failing_stage_replaces_the_advice_on_the_screen() -> None:
    view = fold_all(RunView(header=HEADER), life(3))
    last = view.last_at
    assert "evaluate fails at every try" not in figures(view, last)
    paused = fold(view, FaultSeen("evaluate", "stage_paused", "one try at a time (disk: full)", None, last))
    for columns, rows in ((200, 50), (120, 40), (80, 24), (50, 20)):
        before = "\n".join(line.plain for line in frame(view, last, columns, rows))
        screen = "\n".join(line.plain for line in frame(paused, last, columns, rows))
        assert "evaluate fails at every try" in screen
        assert "would help" not in screen and "raise " not in screen
        assert "evaluate fails at every try" not in before
    assert "evaluate fails at every try" in figures(paused, last)
    assert "slowed by: " not in figures(paused, last)
    assert paused.latest is not None and "disk: full" in paused.latest.text
    back = fold(paused, FaultSeen("evaluate", "stage_back", "it works again", None, last))
    assert back.failing == {}
    aborted = fold(view, LeaseAborted(99, 1, "evaluation", "the disk is full", last))
    assert aborted.latest is not None and aborted.latest.kind == "fault"
    assert "the disk is full" in aborted.latest.text
