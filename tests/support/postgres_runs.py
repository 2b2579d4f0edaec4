"""A whole run on simulated stages over a PostgreSQL server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from pace_async.config import Config
from pace_async.population.store import Store
from pace_async.runtime.run.core import Core
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import SimulatedFaults, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import World
from pace_async.task import load_task
from tests.doubles.clocks import Impatient


@asynccontextmanager
async def run_of(url: str, folder: Path, config: Config, name: str | None = None) -> AsyncGenerator[tuple[Core, Store]]:
    """A simulated run on a server, new or to be resumed. `name` says which one, if there are several."""
    task = load_task("circle_packing")
    async with Store.open(url) as store:
        if not await store.query("select 1 from runs"):
            await store.create_run(header_of(config, task))
            await store.commit(seed_program(task))
        record = await store.load(name)
        world = World(seed=3)
        served = record.run_state.served
        world.serve(served, folder / "versions" / f"{served:06d}" if served else None)
        yield (
            SimulatedRun(config, task, Impatient(), world, folder, SimulatedFaults(), Bytes()).core(record, store),
            store,
        )
