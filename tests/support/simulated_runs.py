"""A whole run on simulated stages over the real database, for tests."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.errors import PaceError
from pace_async.events import Fact
from pace_async.population.base import Population, Question
from pace_async.population.store import Store
from pace_async.runtime.run.clock import Clock
from pace_async.runtime.run.core import Core
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import SimulatedFaults, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import SimulatedLearner, World
from pace_async.simulate.virtual import VirtualLoop
from pace_async.task import load_task
from tests.doubles.clocks import Impatient
from tests.support.population_facts import empty_population

T = TypeVar("T")


@dataclass(slots=True)
class Simulated:
    """The parts of one simulated run."""

    core: Core
    store: Store
    learner: SimulatedLearner
    world: World


class Outside:
    """Wraps a population whose database works in threads. Virtual time stands still while it works."""

    def __init__(self, population: Population, loop: VirtualLoop) -> None:
        self._population = population
        self._loop = loop

    async def commit(self, *facts: Fact) -> None:
        with self._loop.outside():
            await self._population.commit(*facts)

    async def read(self, question: Question[T]) -> T:
        with self._loop.outside():
            return await self._population.read(question)


SECRET = "secret 11 of simulated runs"
"""What their fresh instances follow from, so that equal runs have equal populations."""


def settings(**overrides: object) -> Config:
    """A small configuration, with an advisor as every row of a run has it. Dots of keys are written __."""
    given = {"advisor__model": "tiny", **overrides}
    return resolve(None, {key.replace("__", "."): value for key, value in given.items()}, environment={})


@asynccontextmanager
async def simulated(
    folder: Path, config: Config, world: World, faults: SimulatedFaults | None = None, clock: Clock | None = None
) -> AsyncGenerator[Simulated]:
    """Open a run in `folder`, new or to be resumed. On a virtual loop, time stands still while the database works."""
    task, loop = load_task("circle_packing"), asyncio.get_running_loop()
    virtual = loop if isinstance(loop, VirtualLoop) else None

    def waiting() -> AbstractContextManager[None]:
        return virtual.outside() if virtual else nullcontext()

    if not (folder / "population.db").exists():
        empty_population(folder)
    async with AsyncExitStack() as stack:
        with waiting():
            store = await stack.enter_async_context(Store.open(folder / "population.db"))
            try:
                record = await store.load("simulated")
            except PaceError:
                await store.create_run(header_of(config, task), secret=SECRET)
                await store.commit(seed_program(task))
                record = await store.load("simulated")
        folder_served = folder / "versions" / f"{record.run_state.served:06d}" if record.run_state.served else None
        world.serve(record.run_state.served, folder_served)
        core = SimulatedRun(
            config, task, clock or Impatient(), world, folder, faults or SimulatedFaults(), Bytes()
        ).core(record, Outside(store, virtual) if virtual else store)
        learner = core.stages.learner
        if not isinstance(learner, SimulatedLearner):
            learner = SimulatedLearner(world, folder / "versions")
        try:
            yield Simulated(core, store, learner, world)
        finally:
            with waiting():
                await stack.aclose()
