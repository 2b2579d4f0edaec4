"""How long the turns of the event loop take, and that what is long in a run is not done in one."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import anyio
import pytest

from pace_async.learn.base import Step
from pace_async.population.reading.reader import open_readonly
from pace_async.replay.group import Group
from pace_async.runtime.run import learning
from pace_async.runtime.run.core import Core
from pace_async.runtime.run.loop_turns import LoopTurns, TimedLoop, turns_here
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.durations import CALLS
from pace_async.simulate.runs import FAULTLESS
from pace_async.simulate.stages import SimulatedEngine, World
from tests.support.changed_stages import change_stages
from tests.support.simulated_runs import settings, simulated

SHAPE = {"search__threads": 8, "learner__group_size": 8, "stop__candidates": 24}
PROMPT = 8000
"""Tokens."""


def test_the_longest_turn_is_kept_by_each_clock() -> None:
    wall, cpu = iter([0.0, 0.5, 1.0, 8.0, 9.0, 9.25]), iter([0.0, 0.5, 1.0, 1.25, 2.0, 2.125])
    turns = LoopTurns(lambda: next(wall), lambda: next(cpu))
    for _ in range(3):
        turns.select(0)
    assert (turns.longest_wall, turns.longest_cpu) == (7.0, 0.5)
    turns.forget()
    assert (turns.longest_wall, turns.longest_cpu) == (0.0, 0.0)
    turns.close()


def test_a_loop_that_is_not_timed_has_no_turns() -> None:
    async def turns() -> LoopTurns | None:
        return turns_here()

    assert asyncio.run(turns()) is None


class Discards:
    """A learner that reads no group and makes no version."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def train(self, group: Path) -> Step:
        version = self._core.state.learner
        return Step(version, version, "", None, "not looked at", {}, 0.0)


class Tokens(tuple[int, ...]):
    """Token ids that count, thread by thread, how many of them were gone through in Python."""

    seen: ClassVar[Counter[int]] = Counter()

    def __iter__(self) -> Iterator[int]:
        self.seen[threading.get_ident()] += len(self)
        return super().__iter__()


class Long:
    """A token is a byte, and every prompt is PROMPT tokens long at least."""

    def encode(self, text: str) -> tuple[int, ...]:
        ids = tuple(text.encode())
        return Tokens(ids + (0,) * (PROMPT - len(ids))) if len(ids) > 400 else ids

    def decode(self, token_ids: tuple[int, ...]) -> str:
        return bytes(token_ids).rstrip(b"\0").decode()


class CountedLoop(asyncio.SelectorEventLoop):
    """Its turns are measured by the tokens that its thread went through."""

    def __init__(self) -> None:
        self.turns = LoopTurns(cpu=lambda: float(Tokens.seen[threading.get_ident()]))
        super().__init__(self.turns)


@pytest.mark.long
@pytest.mark.fault("Size", "no turn of the event loop goes through the prompts of a whole group")
@pytest.mark.parametrize("threads", [True, False])
def test_no_turn_goes_through_more_than_the_prompts_of_the_threads(tmp_path: Path, threads: bool) -> None:
    """Without threads for long work one turn goes through a whole group: so the measure sees it."""
    measured: list[float] = []
    shape = settings(search__threads=2, learner__group_size=16, staleness__max_staleness=1, stop__candidates=32)

    async def run() -> None:
        (tmp_path / "groups").mkdir()
        async with simulated(tmp_path, shape, World(seed=1), FAULTLESS) as made:
            engine = SimulatedEngine(made.world, 0, Long())
            change_stages(made.core, engine=engine, learner=Discards(made.core))
            made.core.threads = threads
            loop = asyncio.get_running_loop()
            assert isinstance(loop, CountedLoop)
            made.core.turns = loop.turns
            assert await drive(made.core) == "done"
            measured.append(loop.turns.longest_cpu)

    anyio.run(run, backend_options={"loop_factory": CountedLoop})
    in_group = 16 * CALLS * PROMPT
    assert measured[0] <= in_group / 8 if threads else measured[0] >= in_group


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
            change_stages(made.core, learner=Discards(made.core))
            made.core.threads, made.core.turns = True, turns_here()
            assert await drive(made.core) == "done"

    anyio.run(run, backend_options={"loop_factory": TimedLoop})
    assert writers
    assert threading.get_ident() not in writers
    with open_readonly(tmp_path / "population.db") as reader:
        status = reader.status()
    assert status["longest_stall_ms"] > 0.0
    assert status["longest_turn_cpu_ms"] > 0.0
