"""How long the turns of the event loop take, and that what is long in a run is not done in one."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pace_async.learn.base import Step
from pace_async.population.reader import open_readonly
from pace_async.replay.group import Group
from pace_async.runtime import learning
from pace_async.runtime.core import Core
from pace_async.runtime.supervisor import drive
from pace_async.runtime.turns import TimedLoop, Turns, turns_here
from pace_async.simulate.runs import FAULTLESS
from pace_async.simulate.stages import World
from tests.simulated import settings, simulated

SHAPE = {"search__threads": 8, "learner__group_size": 8, "stop__candidates": 24}


def test_the_longest_turn_is_kept_by_each_clock() -> None:
    wall, cpu = iter([0.0, 0.5, 1.0, 8.0, 9.0, 9.25]), iter([0.0, 0.5, 1.0, 1.25, 2.0, 2.125])
    turns = Turns(lambda: next(wall), lambda: next(cpu))
    for _ in range(3):
        turns.select(0)
    assert (turns.longest_wall, turns.longest_cpu) == (7.0, 0.5)
    turns.forget()
    assert (turns.longest_wall, turns.longest_cpu) == (0.0, 0.0)
    turns.close()


def test_a_loop_that_is_not_timed_has_no_turns() -> None:
    async def turns() -> Turns | None:
        return turns_here()

    assert asyncio.run(turns()) is None


class Discards:
    """A learner that reads no group and makes no version."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def train(self, group: Path) -> Step:
        version = self._core.state.learner
        return Step(version, version, "", None, "not looked at", {}, 0.0)


@pytest.mark.fault("Size", "a group of long prompts is written outside the event loop")
@pytest.mark.fault("Size", "a run measures the turns of its event loop")
def test_a_run_writes_its_groups_outside_the_event_loop_and_says_how_long_its_turns_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers: list[int] = []
    write = learning.write_group

    def watched(path: Path, group: Group) -> str:
        writers.append(threading.get_ident())
        return write(path, group)

    monkeypatch.setattr(learning, "write_group", watched)

    async def run() -> None:
        (tmp_path / "groups").mkdir(exist_ok=True)
        async with simulated(tmp_path, settings(**SHAPE), World(seed=1), FAULTLESS) as made:
            made.core.stages = replace(made.core.stages, learner=Discards(made.core))
            made.core.threads, made.core.turns = True, turns_here()
            assert await drive(made.core) == "done"

    anyio.run(run, backend_options={"loop_factory": TimedLoop})
    assert writers
    assert threading.get_ident() not in writers
    with open_readonly(tmp_path / "population.db") as reader:
        status = reader.status()
    assert status["longest_stall_ms"] > 0.0
    assert status["longest_turn_cpu_ms"] > 0.0
