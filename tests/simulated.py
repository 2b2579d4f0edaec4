"""A whole run on simulated stages over the real database, for tests."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.lowlevel

from pace_async.config import Config, resolve
from pace_async.errors import PaceError
from pace_async.events import Evaluated, RunHeader
from pace_async.observe.bus import Bus
from pace_async.observe.model import RunView
from pace_async.population.store import Store
from pace_async.runtime.core import Core, Stages
from pace_async.runtime.restore import restore
from pace_async.simulate.stages import (
    SimulatedEngine,
    SimulatedEvaluator,
    SimulatedImplementer,
    SimulatedLearner,
    SimulatedPublisher,
    World,
)
from pace_async.task import Task, load_task, program_hash

HORIZON = 20


class Impatient:
    """The machine's clock, except that sleeping takes one turn of the event loop."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await anyio.lowlevel.checkpoint()


@dataclass(slots=True)
class Simulated:
    """The parts of one simulated run."""

    core: Core
    store: Store
    learner: SimulatedLearner
    world: World


def settings(**overrides: object) -> Config:
    """A small configuration; keys with __ for dots."""
    return resolve(None, {key.replace("__", "."): value for key, value in overrides.items()}, environment={})


@asynccontextmanager
async def simulated(folder: Path, config: Config, world: World, discard_every: int = 0) -> AsyncGenerator[Simulated]:
    """Open a run in `folder`, new or to be resumed."""
    task = load_task("circle_packing")
    async with Store.open(folder / "population.db") as store:
        try:
            record = await store.load("simulated")
        except PaceError:
            await store.create_run(_header(config, task))
            await store.commit(_seed(task))
            record = await store.load("simulated")
        restored = restore(record, config)
        world.served = restored.state.served
        learner = SimulatedLearner(world, folder / "versions", discard_every=discard_every)
        trains = config.learner.objective != "none"
        stages = Stages(
            engine=SimulatedEngine(world),
            implementer=SimulatedImplementer(world),
            evaluator=SimulatedEvaluator(world, task.spec.bounds.lower, task.spec.bounds.upper),
            population=store,
            clock=Impatient(),
            learner=learner if trains else None,
            publisher=SimulatedPublisher(world) if trains else None,
        )
        core = Core(
            config=config,
            task=task,
            horizon=HORIZON,
            state=restored.state,
            stages=stages,
            bus=Bus(RunView(header=record.header)),
            groups_folder=folder / "groups",
            shipped=restored.shipped,
        )
        yield Simulated(core, store, learner, world)


def _header(config: Config, task: Task) -> RunHeader:
    bounds = task.spec.bounds
    return RunHeader(
        name="simulated",
        task=task.name,
        task_digest=task.digest,
        seed=config.seed,
        objective=config.learner.objective,
        advisor="simulated",
        engine="simulated",
        implementer="simulated",
        sandbox="simulated",
        threads=config.search.threads,
        group_size=config.learner.group_size,
        max_staleness=config.bound,
        horizon=HORIZON,
        lower=bounds.lower,
        upper=bounds.upper,
        direction=task.spec.direction,
        config=config.model_dump(mode="json"),
    )


def _seed(task: Task) -> Evaluated:
    return Evaluated(
        lease=0,
        island=0,
        parent=None,
        program=task.program,
        program_hash=program_hash(task.program),
        outcome="ok",
        detail="",
        score=task.spec.bounds.lower,
        reward=0.0,
        metrics={},
        seconds=0.0,
        memoised=False,
        mechanism=None,
        at=time.time(),
    )
