"""A run of a version without a journal goes on, with a journal of everything."""

from pathlib import Path

import pytest

from pace_async.configure import resolve
from pace_async.population.checking import check_population
from pace_async.population.reading.reader import open_readonly
from pace_async.population.schema import upgrade
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.runs import SimulatedFaults
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import VirtualClock, run_virtually
from tests.doubles.implementers import NotesChat
from tests.support.changed_stages import change_stages
from tests.support.earlier_runs import earlier_run
from tests.support.simulated_runs import simulated
from tests.support.virtual_runs import REACH, durations

LATER = 1_790_100_000.0
"""After its last commit, in seconds since the epoch."""


@pytest.mark.long
def test_a_run_of_a_version_without_a_journal_goes_on_with_one(tmp_path: Path) -> None:
    folder = earlier_run("before_journal", tmp_path)
    upgrade(folder / "population.db")
    config = resolve(folder / "config.yaml", {"stop.candidates": 60}, environment={})

    async def resume() -> None:
        world = World(seed=3, durations=durations(3))
        async with simulated(folder, config, world, SimulatedFaults(reach=REACH), VirtualClock()) as run:
            change_stages(run.core, notes=NotesChat(seconds=40.0).writer(run.core))
            assert await drive(run.core, None, signals=False) == "done"

    run_virtually(resume, start=LATER)
    with open_readonly(folder / "population.db") as reader:
        checks = check_population(reader)
        assert reader.standing().candidates >= 60
    assert [line for check in checks for line in check.wrong] == []
    journal = next(check.found for check in checks if check.name.startswith("journal"))
    assert int(journal.partition(" facts")[0]) > 193 + 3 * 20
