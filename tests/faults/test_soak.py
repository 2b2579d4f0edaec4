"""One long run in one process: what it holds does not grow with what it has done.

Memory is what Python's allocators hold (`tracemalloc`), read at moments of the run itself, so that neither the size of
the database nor another process counts. Two readings far apart give the growth a candidate.
"""

import asyncio
import gc
import tracemalloc
from collections.abc import Sequence
from functools import _lru_cache_wrapper  # the type of what functools.lru_cache makes
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from pace_async.events import Evaluated, Fact
from pace_async.population.base import Question
from pace_async.population.memory import MemoryPopulation
from pace_async.programs import compiled as programs
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.codecs import Handles
from pace_async.simulate.durations import Durations
from pace_async.simulate.predict import Scenario, config_of
from pace_async.simulate.runs import FAULTLESS, TINY_TASK, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import VirtualClock, run_virtually

MINUTES = Durations(
    seed=0, evaluation_mean=60, evaluation_cv=0.6, evaluation_cap=None, generation=3, learning=1.8, pause=0.18
)
T = TypeVar("T")
SHORT, LONG = 3000, 100_000
LEAK = 1024
LIMIT = LEAK / 2
"""Bytes a candidate: what is remembered of each group and each lease by simulated stages stays far below."""


class Watched:
    """A population that reads how much memory, how many descriptors and tasks there are after some candidates, and
    keeps `leak` bytes of each candidate."""

    def __init__(self, inner: MemoryPopulation, moments: Sequence[int], leak: int) -> None:
        self._inner, self._moments, self._leak = inner, moments, leak
        self._kept: list[bytearray] = []
        self._candidates = 0
        self.memory: list[int] = []
        self.descriptors: list[int] = []
        self.tasks: list[int] = []

    async def commit(self, *facts: Fact) -> None:
        await self._inner.commit(*facts)
        for fact in facts:
            if isinstance(fact, Evaluated):
                self._candidates += 1
                if self._leak:
                    self._kept.append(bytearray(self._leak))
                if self._candidates in self._moments:
                    self._read()

    async def read(self, question: Question[T]) -> T:
        return await self._inner.read(question)

    def _read(self) -> None:
        _empty_bounded_caches()
        gc.collect()
        self.memory.append(tracemalloc.get_traced_memory()[0])
        self.descriptors.append(psutil.Process().num_fds())
        self.tasks.append(len(asyncio.all_tasks()))


def _empty_bounded_caches() -> None:
    """Empty our caches with a limit, which grow up to it and are no leak. A cache without a limit is kept. They are
    found by their type alone, because `isinstance` also calls the object, and some objects warn."""
    caches: list[Any] = [one for one in gc.get_objects() if type(one) is _lru_cache_wrapper]
    for cache in caches:
        if cache.__module__.startswith("pace_async") and cache.cache_parameters()["maxsize"] is not None:
            cache.cache_clear()
    for memo in (programs._programs, programs._sent, programs._compiled_parts):
        memo.__init__(programs.REMEMBERED)


def _soaked(folder: Path, candidates: int, leak: int = 0) -> tuple[Watched, float]:
    """The readings at half of the run and near its end, and the growth of memory between them in bytes a candidate."""
    moments = candidates // 2, candidates - 100
    config = config_of(Scenario(threads=8, group_size=8, bound=2, durations=MINUTES, candidates=candidates))

    async def run() -> Watched:
        population = MemoryPopulation(header_of(config, TINY_TASK))
        await population.commit(seed_program(TINY_TASK))
        world = World(durations=MINUTES)
        world.serve(0, None)
        record, watched = population.load(), Watched(population, moments, leak)
        (folder / "groups").mkdir()
        core = SimulatedRun(config, TINY_TASK, VirtualClock(), world, folder, FAULTLESS, Handles()).core(
            record, watched
        )
        assert await drive(core) == "done"
        population.close()
        return watched

    tracemalloc.start(1)
    try:
        watched = run_virtually(run)
    finally:
        tracemalloc.stop()
    first, last = watched.memory
    return watched, (last - first) / (moments[1] - moments[0])


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.fault("Soak", "memory, descriptors and tasks stay flat")
def test_over_thousands_of_candidates_of_one_run_memory_descriptors_and_tasks_stay_flat(tmp_path: Path) -> None:
    watched, growth = _soaked(tmp_path, SHORT)
    assert growth < LIMIT
    assert len(set(watched.descriptors)) == 1
    assert len(set(watched.tasks)) == 1


@pytest.mark.fault("Soak", "a leak of 1 kB a candidate is noticed")
def test_a_leak_of_one_kilobyte_a_candidate_is_far_beyond_what_is_allowed(tmp_path: Path) -> None:
    _, growth = _soaked(tmp_path, SHORT // 3, LEAK)
    assert growth > LIMIT


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.fault("Soak", "memory stays flat over a hundred thousand candidates of one run")
def test_over_a_hundred_thousand_candidates_of_one_run_memory_stays_flat(tmp_path: Path) -> None:
    watched, growth = _soaked(tmp_path, LONG)
    assert growth < LIMIT / 4
    assert len(set(watched.descriptors)) == 1
    assert len(set(watched.tasks)) == 1
