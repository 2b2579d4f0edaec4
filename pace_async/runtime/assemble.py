"""Puts the real stages behind the seams, drives the run, and says how it ended."""

import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from pace_async.config import Config
from pace_async.durable import write_whole
from pace_async.errors import InfrastructureFault
from pace_async.evaluate.base import Evaluator
from pace_async.evaluate.process import ProcessEvaluator
from pace_async.evaluate.tiers import Tier
from pace_async.events import FaultSeen, Stalled, Starting
from pace_async.heap import start_up_frozen
from pace_async.implement.assemble import open_implementer
from pace_async.learn.client import ProcessLearner
from pace_async.learn.settings import Settings
from pace_async.observe.base import DisplayKind
from pace_async.observe.bus import Bus, observing
from pace_async.observe.choose import choose
from pace_async.observe.history import view_of
from pace_async.observe.jsonl import JsonlDisplay
from pace_async.observe.output import Output
from pace_async.observe.summary import closing_words
from pace_async.population.lock import RunLock
from pace_async.population.outage import Outage, Say
from pace_async.population.record import RunRecord
from pace_async.population.store import Store
from pace_async.runtime.cards import cards_of
from pace_async.runtime.clock import RealClock
from pace_async.runtime.core import Core, Stages
from pace_async.runtime.engines import serving
from pace_async.runtime.fresh import FreshInstances, fresh_seeds
from pace_async.runtime.keeper import EngineProcess
from pace_async.runtime.learning import group_path
from pace_async.runtime.models import advisor_folder
from pace_async.runtime.places import Places
from pace_async.runtime.purse import Purse
from pace_async.runtime.replica import Probing
from pace_async.runtime.restore import restore
from pace_async.runtime.resuming import in_force
from pace_async.runtime.state import RunState
from pace_async.runtime.supervisor import drive
from pace_async.runtime.turns import turns_here
from pace_async.search.state import Member
from pace_async.task import Task


@dataclass(frozen=True, slots=True)
class Resources:
    """What a run needs before its stages are there."""

    config: Config
    task: Task
    places: Places
    tier: Tier
    store: Store
    record: RunRecord
    lock: RunLock


async def conduct(resources: Resources, display: DisplayKind) -> str:
    """Drive the run to its end and print the closing words; the state it ended in."""
    config, places = resources.config, resources.places
    restored = restore(resources.record, config)
    shown = replace(resources.record, header=in_force(resources.record.header, config))
    view = await view_of(shown, config.stop, resources.store)
    bus = Bus(replace(view, best_known=resources.task.spec.target, begun_at=time.time()))
    resources.store.be_patient(config.faults.patience_s, waiting(resources.lock, bus))
    output = Output(sys.stdout)
    displays = [choose(display, output), JsonlDisplay(places.events)]
    async with observing(bus, displays), _stages(resources, restored.state, bus) as (stages, engine, learner):
        core = Core(
            config=config,
            task=resources.task,
            horizon=resources.record.header.horizon,
            state=restored.state,
            stages=stages,
            bus=bus,
            groups_folder=places.groups,
            shipped=restored.shipped,
            turns=turns_here(),
            threads=True,
            fresh=_fresh(resources, stages.evaluator),
            refuse_if_gone=resources.lock.refuse_if_gone,
        )
        try:
            with start_up_frozen():
                state = await drive(core, engine, learner, signals=True)
        finally:
            keep_best(places, core.state.best)
    if display != "none":
        columns = output.size()[0] if output.terminal else None
        await say(closing_words(bus.view, places.folder, time.time(), columns))
    return state


def keep_best(places: Places, best: Member | None) -> None:
    """A copy for people: a failure is told and ends nothing. That the folder is gone is told elsewhere."""
    try:
        if best is not None and places.folder.is_dir():
            write_whole(places.best, best.program)
    except InfrastructureFault as fault:
        with suppress(OSError):
            sys.stderr.write(f"pace: {places.best.name} could not be written ({fault}): `pace best` prints it.\n")


def waiting(lock: RunLock, bus: Bus | None = None) -> Say:
    """What tells of a database that cannot be written: the lock's file, which `pace status` reads, and the screen."""

    def say(news: Outage | FaultSeen) -> None:
        away = isinstance(news, Outage)
        lock.waits(news.reason if away else "", news.since if away else None)
        if bus is not None:
            bus.publish(Stalled(news.reason, news.since) if away else news)
        elif away:
            sys.stderr.write(f"pace: {news.reason}: waiting\n")

    return say


def _fresh(resources: Resources, evaluator: Evaluator) -> FreshInstances | None:
    record, own = resources.record, resources.record.seed_program
    seeds = fresh_seeds(record.secret, resources.config.evaluation.fresh_seeds)
    if own is None or not seeds:
        return None
    return FreshInstances(evaluator, resources.task, own, seeds, dict(record.own_scores))


async def say(lines: Sequence[str]) -> None:
    """Print to whoever reads; one who has gone does not matter."""
    output = Output(sys.stdout)
    output.write("\n" + "\n".join(lines) + "\n")
    await output.drain(2.0)
    output.close()


@asynccontextmanager
async def _stages(
    resources: Resources, state: RunState, bus: Bus
) -> AsyncGenerator[tuple[Stages, EngineProcess, ProcessLearner | None]]:
    """The real stages, all processes up. The engine serves the newest complete weights from its first token."""
    config, places = resources.config, resources.places
    given = advisor_folder(config.advisor.model)
    trains = config.learner.objective != "none"

    async def record(where: str, kind: str, detail: str) -> None:
        fact = FaultSeen(where, kind, detail, None, RealClock().now())
        with anyio.CancelScope(shield=True):
            await resources.store.commit(fact)
        bus.publish(fact)

    async def say_cold(detail: str) -> None:
        await record("evaluate", "warm_parent", detail)

    async def say_memo(detail: str) -> None:
        await record("evaluate", "score_memo", detail)

    async def say_fault(fault: InfrastructureFault) -> None:
        await record("engine", fault.kind, fault.detail)

    async with AsyncExitStack() as stack:
        bus.publish(Starting("the learner" if trains else "the evaluator"))
        learner = await stack.enter_async_context(await _learner(resources, given)) if trains else None
        evaluator = await stack.enter_async_context(
            ProcessEvaluator(
                resources.task, config.evaluation, resources.tier, places.logs / "scorer.log", say_cold, say_memo
            )
        )
        if learner is not None and state.learner > 0:
            state.weights = str(await learner.ready())
        bus.publish(Starting("the engine"))
        probing = Probing(learner, config.advisor.probe_limit, config.advisor.temperature, say_fault)
        sender = learner if config.advisor.transport == "nccl" else None
        served = await stack.enter_async_context(serving(config, places, given, state, probing, sender))
        purse = Purse(resources.store, bus, RealClock(), state, config.stop.budget, last=resources.record.reservations)
        implementer = await stack.enter_async_context(open_implementer(config, resources.task, purse))
        stages = Stages(
            engine=served.client,
            implementer=implementer,
            evaluator=evaluator,
            population=resources.store,
            clock=RealClock(),
            learner=learner,
            publisher=served.publisher if trains else None,
        )
        yield stages, served.process, learner


async def _learner(resources: Resources, given: Path) -> ProcessLearner:
    """The learner with the record of the groups that made the versions so far."""
    rows = await resources.store.query(
        "select group_number from versions where run_id = :run_id and group_number is not null order by version",
        {"run_id": resources.record.run_id},
    )
    cards = cards_of(resources.config)
    return ProcessLearner(
        given,
        resources.places.learner,
        Settings.of(resources.config),
        [group_path(resources.places.groups, row["group_number"]) for row in rows],
        log=resources.places.logs / "learner.log",
        step_s=resources.config.learner.step_timeout_s,
        hung_s=resources.config.faults.hung_s,
        gpu=cards.learner if cards is not None else None,
    )
