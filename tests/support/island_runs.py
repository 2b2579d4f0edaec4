"""A simulated run whose islands go back and cross over."""

from pathlib import Path

import anyio

from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.runs import SimulatedFaults
from pace_async.simulate.stages import World
from tests.support.simulated_runs import settings, simulated

SEARCH: dict[str, object] = {
    "search__backtracking": True,
    "search__momentum_trigger": 0.1,
    "search__action_interval": 2,
    "search__threads": 3,
    "learner__group_size": 3,
    "learner__k": 2,
}


def make_island_run(folder: Path) -> Path:
    """Drive such a run of 30 candidates to its end. Returns its folder."""

    async def search() -> None:
        config = settings(**SEARCH, stop__candidates=30)
        async with simulated(folder, config, World(seed=3), SimulatedFaults(reach=0.5)) as run:
            assert await drive(run.core) == "done"

    anyio.run(search)
    return folder
