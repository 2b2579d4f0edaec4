"""Drives a run to its end: T search threads, one learning loop and the engine supervisor in one task group.

Signals are handled outside of the group, because they must work when the group was cancelled and does not end. Nothing
here decides. It starts, waits, and records how the run ended. The run ends by itself when a stop rule is met, running
rollouts have finished, and complete groups have been trained.
"""

from contextlib import suppress

import anyio

from pace_async.errors import GaveUp, PaceError
from pace_async.evaluate.base import Machines
from pace_async.events import LoopMeasured, NodesSeen, RunStateChanged
from pace_async.learn.base import Trainer
from pace_async.runtime.children.engine_supervisor import SupervisedEngine, keep_engine, watch_learner
from pace_async.runtime.run.core import INTERRUPTED, Core
from pace_async.runtime.run.learning import learn_while_searching
from pace_async.runtime.run.loop_turns import LoopTurns
from pace_async.runtime.run.notes import keepers_of
from pace_async.runtime.run.patience import Patience
from pace_async.runtime.run.thread import search_thread
from pace_async.runtime.start.keys import Keys
from pace_async.runtime.start.signals import obey_signals

LAST_WORD_S = 10.0
SHOW_S = 5.0
MEASURE_S = 10.0
"""Between two looks at how long the turns of the event loop took."""
STATES = {"budget": "stopped_by_budget", INTERRUPTED: "interrupted"}


async def drive(
    core: Core,
    engine: SupervisedEngine | None = None,
    learner: Trainer | None = None,
    *,
    signals: bool = False,
    keys: Keys | None = None,
) -> str:
    """Drive the run to its end. Returns its final state. `engine` and `learner` are watched, `keys` are obeyed. Raises
    GaveUp, or an ExceptionGroup for our own mistakes."""
    core.started = core.stages.clock.monotonic()
    await core.record(RunStateChanged("running", "", core.stages.clock.now()))
    if core.turns is not None:
        core.turns.forget()
    core.changed()  # a stop rule that is met already opens no lease
    state, reason, failed = "", "", list[Exception]()
    try:
        async with anyio.create_task_group() as outside:
            with anyio.CancelScope() as scope:
                if signals:
                    outside.start_soon(obey_signals, core, scope)
                if keys is not None:
                    outside.start_soon(keys, core)
                await _search_and_learn(core, engine, learner, scope)
            outside.cancel_scope.cancel()
        state = STATES.get(core.stopping or "interrupted", "done")
        reason = core.stopping or ""
    except* PaceError as errors:
        first = _first(errors)
        await _last_word(core, "gave_up", str(first))
        failed.append(first)
    except* Exception as errors:
        first = _first(errors)
        await _last_word(core, "crashed", type(first).__name__)
        raise
    if failed:
        raise failed[0] from None  # Python before 3.11.4 would put it into a group in the block above
    await _last_word(core, state, reason)
    return state


async def _last_word(core: Core, state: str, reason: str) -> None:
    """Record how the run ended. If the database is unreachable this is skipped. A run without a final state counts as
    interrupted, and a resume goes on with it."""
    with anyio.move_on_after(LAST_WORD_S), suppress(GaveUp):
        await core.record(*_measured(core), RunStateChanged(state, reason, core.stages.clock.now()))


async def _search_and_learn(
    core: Core, engine: SupervisedEngine | None, learner: Trainer | None, scope: anyio.CancelScope
) -> None:
    """Return when the run has ended. A drain that takes too long cancels `scope`."""
    keepers = keepers_of(core)
    async with anyio.create_task_group() as beside:
        for keeper in keepers:
            beside.start_soon(keeper.keep)
        if engine is not None:
            beside.start_soon(keep_engine, core, engine)
        if learner is not None:
            beside.start_soon(watch_learner, core, learner)
        if core.turns is not None:
            beside.start_soon(_measure_turns, core, core.turns)
        if core.stages.evaluator.machines() is not None:
            beside.start_soon(_show_machines, core)
        if core.config.stop.minutes is not None:
            beside.start_soon(_stop_in_time, core, core.config.stop.minutes, scope)
        if core.config.stop.patience_minutes is not None:
            beside.start_soon(_lose_patience, core, core.config.stop.patience_minutes)
        async with anyio.create_task_group() as group:
            patience = Patience(core)
            for island in sorted(core.state.islands):
                group.start_soon(search_thread, core, patience, island)
            if core.stages.learner is not None and core.stages.publisher is not None:
                group.start_soon(learn_while_searching, core, core.stages.learner, core.stages.publisher)
        for keeper in keepers:
            await keeper.end()
        beside.cancel_scope.cancel()


async def _show_machines(core: Core) -> None:
    """Show at intervals how many machines evaluate, and how busy they are."""
    previous: Machines | None = None
    while True:
        if (machines := core.stages.evaluator.machines()) is not None and machines != previous:
            core.show(NodesSeen(machines.count, machines.slots, machines.busy))
            previous = machines
        await core.stages.clock.sleep(SHOW_S)


async def _measure_turns(core: Core, turns: LoopTurns) -> None:
    """Record the longest turns of the event loop at intervals."""
    known = 0.0, 0.0
    while True:
        await core.stages.clock.sleep(MEASURE_S)
        if (longest := (turns.longest_wall, turns.longest_cpu)) != known:
            known = longest
            await core.record(*_measured(core))


def _measured(core: Core) -> tuple[LoopMeasured, ...]:
    """No fact if the turns are not measured."""
    turns = core.turns
    if turns is None:
        return ()
    return (LoopMeasured(1000 * turns.longest_wall, 1000 * turns.longest_cpu, core.stages.clock.now()),)


async def _stop_in_time(core: Core, minutes: float, scope: anyio.CancelScope) -> None:
    """Drain after so many minutes. What is unfinished when the drain's own time is over stays open for a resume."""
    clock, stop = core.stages.clock, core.config.stop
    await clock.sleep(minutes * 60)
    if core.stopping is not None:
        return
    core.stop("minutes")
    drain_s = core.config.faults.drain_s if stop.drain_s is None else stop.drain_s
    await core.record(RunStateChanged("draining", f"minutes, for at most {drain_s:g} s", clock.now()))
    await clock.sleep(drain_s)
    scope.cancel()


async def _lose_patience(core: Core, minutes: float) -> None:
    """Let the stop rules be tested when the best has stood for so many minutes, even if nothing else happens then."""
    while core.stopping is None:
        await core.stages.clock.sleep(max(1.0, 60 * (minutes - core.progress().minutes_since_best)))
        core.changed()


def _first(errors: BaseExceptionGroup[Exception]) -> Exception:
    """The first of the errors that ended the run, taken out of its exception groups."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
