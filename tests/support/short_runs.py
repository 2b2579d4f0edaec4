"""Short runs over a database file that are ended from outside, and gone on with."""

from pathlib import Path

import anyio

from pace_async.runtime.run.clock import RealClock
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.stages import World
from tests.doubles.evaluators import Held
from tests.faults.invariants import assert_sound, candidates_of
from tests.support.changed_stages import change_stages
from tests.support.simulated_runs import Simulated, settings, simulated

SHAPE = {"stop__candidates": 40, "search__threads": 4, "learner__group_size": 4, "learner__k": 2}


def hold(run: Simulated, until: int = 10) -> Held:
    """Hold the run's evaluations after the first ones. Its clock is the machine's, so that deadlines are real."""
    held = Held(run.core.stages.evaluator, until, SHAPE["search__threads"])
    change_stages(run.core, evaluator=held, clock=RealClock())
    return held


async def goes_on_to_its_end(folder: Path) -> None:
    """Resume, and look at what holds."""
    kept = candidates_of(folder / "population.db")
    async with simulated(folder, settings(**SHAPE), World(seed=9)) as run:
        with anyio.fail_after(100):
            assert await drive(run.core) == "done"
    assert_sound(folder / "population.db", kept=kept, finished=True)
    assert len(candidates_of(folder / "population.db")) == 41
