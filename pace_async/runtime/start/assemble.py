"""Puts the real stages behind the seams, drives the run, and prints how it ended."""

import hmac
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio.to_thread

from pace_async.advise.asked_advisor import open_asked_advisor
from pace_async.baseline import beside_of
from pace_async.config import Config
from pace_async.errors import InfrastructureFault
from pace_async.evaluate.base import Evaluator
from pace_async.evaluate.resources import OfRun
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.events import FaultSeen, Stalled, Starting
from pace_async.gc_freeze import start_up_frozen
from pace_async.implement.agent_folder import AgentFolders
from pace_async.implement.assemble import open_implementer
from pace_async.implement.notes_writer import open_notes_writer
from pace_async.learn.base import Trainer
from pace_async.observe.bus import Bus, observing
from pace_async.observe.choose import choose
from pace_async.observe.history import resumed_view, taken_up
from pace_async.observe.jsonl import JsonlDisplay
from pace_async.observe.model import RunView
from pace_async.observe.output import Output
from pace_async.observe.summary import closing_words
from pace_async.observe.watchers.base import LoggedRun
from pace_async.observe.watchers.choose import Chosen
from pace_async.observe.watchers.follower import WatcherDisplay
from pace_async.outside import printable
from pace_async.population.lock import RunLock
from pace_async.population.reading.inbox import Entry, waiting_in
from pace_async.population.reading.progress import groups_of_versions
from pace_async.population.reading.record import RunRecord
from pace_async.population.reading.summaries import made_at
from pace_async.population.store import Store
from pace_async.population.writing.outage import Outage, Say
from pace_async.providers.base import ADVISOR, NOTES
from pace_async.registry.advisors import advisor_of
from pace_async.registry.displays import DISPLAYS
from pace_async.registry.evaluators import EVALUATORS
from pace_async.registry.objectives import trains
from pace_async.registry.trainers import TRAINERS
from pace_async.runtime.best_program import how_to_apply, write_best
from pace_async.runtime.children.cards import taken_cards
from pace_async.runtime.children.catalogue_reading import chooser_for, run_folder, wording_for
from pace_async.runtime.children.engine_supervisor import SupervisedEngine
from pace_async.runtime.children.engines import serving
from pace_async.runtime.children.killed import again_if_killed
from pace_async.runtime.children.replica import Probing
from pace_async.runtime.children.tinker import paid_advisor
from pace_async.runtime.children.training import Training
from pace_async.runtime.run.clock import RealClock
from pace_async.runtime.run.core import Core, Stages, prompts_of
from pace_async.runtime.run.fresh import FreshInstances, fresh_seeds
from pace_async.runtime.run.learning import group_path
from pace_async.runtime.run.loop_turns import turns_here
from pace_async.runtime.run.recorder import BudgetLedger, Recorder
from pace_async.runtime.run.snapshots import Snapshots
from pace_async.runtime.run_paths import RunPaths
from pace_async.runtime.start.keys import keys_on
from pace_async.runtime.start.refusals import advisor_caller
from pace_async.runtime.start.restore import restore
from pace_async.runtime.start.resuming import in_force
from pace_async.runtime.start.supervisor import drive
from pace_async.runtime.start.surroundings import surroundings_of
from pace_async.search.state import Member
from pace_async.state.apply import weights_found
from pace_async.state.run_state import RunState
from pace_async.task import Task


@dataclass(frozen=True, slots=True)
class RunResources:
    """The resources of a run before its stages start."""

    config: Config
    task: Task
    paths: RunPaths
    tier: Tier
    store: Store
    record: RunRecord
    lock: RunLock


async def conduct(resources: RunResources, display: str, logs: Sequence[Chosen] = ()) -> str:
    """Drive the run to its end and print the summary. Returns its final state."""
    config, paths, suffix = resources.config, resources.paths, resources.task.suffix
    state = restore(resources.record, config)
    header = in_force(resources.record.header, config)
    replay = await taken_up(resources.record.run_id, resources.store)
    view = resumed_view(replay.follower.view, header, config.stop)
    beside = beside_of(header, view.seed_score)
    bus = Bus(replace(view, best_known=resources.task.spec.target, beside=beside, begun_at=time.time()))
    resources.store.be_patient(config.faults.patience_s, waiting(resources.lock, bus))
    resources.store.guard(resources.lock.refuse_if_gone)  # SQLite would write on into a file without a name
    output = Output(sys.stdout)
    screen = choose(display, output)
    displays = [screen, JsonlDisplay(paths.events), *await _logged(resources, logs, view, replay.seq)]
    snapshots = Snapshots(resources.store, state, replay.follower, replay.seq, replay.since)
    recorder = Recorder(resources.store, state, bus, snapshots)
    async with observing(bus, displays), _stages(resources, recorder) as (stages, engine, learner):
        core = Core(
            config=config,
            task=resources.task,
            run=resources.record.header.name,
            horizon=resources.record.header.horizon,
            recorder=recorder,
            stages=stages,
            groups_folder=paths.groups,
            turns=turns_here(),
            threads=True,
            inbox_waits=_inbox_waits(await waiting_in(resources.store, header.name)),
            prompts=prompts_of(config, resources.task, surroundings_of(resources.task))
            if state.memory.active
            else None,
            fresh=_fresh(resources, stages.evaluator, state),
        )
        try:
            with start_up_frozen():
                ended = await drive(core, engine, learner, signals=True, keys=keys_on(screen))
        finally:
            keep_best(paths, suffix, core.state.best, resources.task.program)
        if resources.record.header.by_confirmed or core.state.steering.banned():
            chosen = await resources.store.standing(resources.record.header.name)
            keep_best(paths, suffix, chosen.best, resources.task.program)
    await resources.store.refuse_if_damaged()
    if DISPLAYS[display].announces:
        columns, own = output.size()[0] if output.terminal else None, how_to_apply(paths, suffix)
        await say([*closing_words(bus.view, paths.folder, time.time(), columns), *(["", *own] if own else [])])
    return ended


def _inbox_waits(entries: Sequence[Entry] | None) -> bool:
    """Whether the inbox has what any run takes in, or may have some because the database is away."""
    return entries is None or any(each.program is not None or each.subject == "candidate" for each in entries)


async def _logged(resources: RunResources, logs: Sequence[Chosen], view: RunView, after: int) -> list[WatcherDisplay]:
    """The watchers, begun. They follow the facts after the fact `after`, at which the run was `view`."""
    record, paths = resources.record, resources.paths
    if not logs:
        return []
    began = await resources.store.read(lambda connection: made_at(connection, record.run_id))
    logged = LoggedRun(paths.name, record.header.task, began, paths.folder, record.header.config)
    rows = paths.population[0], record.header.name
    return [WatcherDisplay(name, watcher, logged, *rows, view, after) for name, watcher in logs]


def keep_best(paths: RunPaths, suffix: str, best: Member | None, seed: str = "") -> None:
    """Write a copy of the best program for the user. A failure is reported and does not end the run. A missing folder
    is reported elsewhere."""
    try:
        if best is not None and paths.folder.is_dir():
            write_best(paths, suffix, best.program, seed)
    except InfrastructureFault as fault:
        with suppress(OSError):
            message = f"{paths.best(suffix).name} could not be written ({fault}): `pace best` prints it."
            sys.stderr.write(f"pace: {printable(message)}\n")


def waiting(lock: RunLock, bus: Bus | None = None) -> Say:
    """Reports a database that cannot be written: in the lock's file, which `pace status` reads, and on the screen."""

    def say(news: Outage | FaultSeen) -> None:
        away = isinstance(news, Outage)
        lock.waits(news.reason if away else "", news.since if away else None)
        if bus is not None:
            bus.publish(Stalled(news.reason, news.since) if away else news)
        elif away:
            sys.stderr.write(f"pace: {printable(news.reason)}: waiting\n")

    return say


def _fresh(resources: RunResources, evaluator: Evaluator, state: RunState) -> FreshInstances | None:
    record, own = resources.record, resources.record.run_state.seed_program
    seeds = fresh_seeds(record.secret, resources.config.evaluation.fresh_seeds)
    if own is None or not seeds:
        return None
    run = record.header.name
    known, measured = dict(record.own_scores), dict(record.own_metrics)
    return FreshInstances(evaluator, resources.task, own, seeds, known, run, state.attempts, measured)


async def say(lines: Sequence[str]) -> None:
    """Print lines, in which no name of a file steers the terminal. A closed pipe is ignored."""
    output = Output(sys.stdout)
    output.write("\n" + printable("\n".join(lines)) + "\n")
    await output.drain(2.0)
    output.close()


@asynccontextmanager
async def _stages(
    resources: RunResources, recorder: Recorder
) -> AsyncGenerator[tuple[Stages, SupervisedEngine | None, Trainer | None]]:
    """The real stages, with all processes running. The engine serves the newest complete weights from its first
    token."""
    config, paths, state, bus = resources.config, resources.paths, recorder.state, recorder.bus
    learns = trains(config.learner.objective)

    async def record(where: str, kind: str, detail: str) -> None:
        await recorder.record_uncut(FaultSeen(where, kind, detail, None, RealClock().now()))

    async def say_fault(fault: InfrastructureFault) -> None:
        await record("engine", fault.kind, fault.detail)

    async def say_learner_fault(fault: InfrastructureFault) -> None:
        await record("learner", fault.kind, fault.detail)

    async with AsyncExitStack() as stack:
        kind = advisor_of(config.advisor.model)
        bus.publish(Starting("the learner" if learns else "the evaluator"))
        folder = (
            await anyio.to_thread.run_sync(run_folder, config, paths, resources.task) if kind.served else paths.advisor
        )
        ledger = BudgetLedger(recorder, RealClock(), config.stop.budget)
        training: Training | None = None
        if learns:
            opens = TRAINERS[config.learner.trainer].load()
            groups = await _groups(resources)
            training = await stack.enter_async_context(opens(config, paths, folder, groups, ledger.of(ADVISOR)))
        learner = training.trainer if training is not None else None
        if learner is not None:
            learner.tell = say_learner_fault
        evaluator = await stack.enter_async_context(_evaluator(resources, partial(record, "evaluate")))
        if learner is not None and state.learner > 0:
            weights_found(state, str(await again_if_killed(learner.ready, config.faults, say_learner_fault)))
        served, advisor = None, None
        if kind.served:
            bus.publish(Starting("the engine"))
            scorer = training.scorer if training is not None else None
            probing = Probing(scorer, config.advisor.probe_limit, config.advisor.temperature, say_fault)
            served = await stack.enter_async_context(serving(config, paths, folder, state, probing, training))
            if training is not None and training.meter is not None:
                advisor = paid_advisor(config, folder, served.client, training.meter)
        elif kind.asked:
            caller = advisor_caller(config)
            advisor = await stack.enter_async_context(open_asked_advisor(config, ledger.of(caller), caller))
        implementer = await stack.enter_async_context(
            open_implementer(config, resources.task, ledger, _agent_folders(resources, state))
        )
        notes = await stack.enter_async_context(open_notes_writer(config, ledger.of(NOTES)))
        stages = Stages(
            engine=served.client if served is not None else None,
            implementer=implementer,
            evaluator=evaluator,
            clock=RealClock(),
            learner=learner,
            publisher=served.publisher if served is not None and learns else None,
            wording=wording_for(config, resources.task),
            asked=advisor,
            chooser=chooser_for(config, resources.task),
            end_of_thinking=config.advisor.end_of_thinking,
            notes=notes,
        )
        yield stages, served.process if served is not None else None, learner


def _evaluator(
    resources: RunResources, say: Callable[[str, str], Awaitable[None]]
) -> AbstractAsyncContextManager[Evaluator]:
    """The evaluator of the run, once it is entered."""
    evaluation = resources.config.evaluation
    opens = EVALUATORS[evaluation.evaluators].load()
    return opens(
        resources.task,
        evaluation,
        tier=resources.tier,
        log=resources.paths.logs / "scorer.log",
        say=say,
        run=OfRun(_name_elsewhere(resources), taken_cards(resources.config)),
    )


def _name_elsewhere(resources: RunResources) -> str:
    """The name of the run on machines that other runs use too: no other run has it, and each resume has it. Empty for a
    run that began before runs had secrets."""
    secret = resources.record.secret
    own = hmac.digest(secret.encode(), b"elsewhere", "sha256").hex()[:16]
    return f"{resources.paths.name}-{own}" if secret else ""


def _agent_folders(resources: RunResources, state: RunState) -> AgentFolders:
    """Where an agent works on the leases that are implemented or evaluated."""
    paths, keep = resources.paths, resources.config.implementer.keep_folders
    return AgentFolders(paths.agents, paths.logs / "agent.log", lambda lease: lease not in state.running, keep)


async def _groups(resources: RunResources) -> list[Path]:
    """The files of the groups that made the versions so far."""
    groups = await resources.store.read(lambda connection: groups_of_versions(connection, resources.record.run_id))
    return [group_path(resources.paths.groups, number) for number, _ in groups]
