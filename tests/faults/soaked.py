"""One long simulated run in a process of its own, which reads what it holds: for tests/faults/test_soak.py.

    PYTHONMALLOC=malloc MALLOC_ARENA_MAX=1 python -m tests.faults.soaked FOLDER CANDIDATES LEAK

With PYTHONMALLOC=malloc every object is a block of the C library, which counts the bytes in use, so a reading costs
nothing between the readings. The database in memory is subtracted: SQLite counts its own bytes. LEAK bytes of each
candidate are kept on purpose. The readings are printed as JSON.
"""

import _sqlite3
import asyncio
import ctypes
import gc
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import _lru_cache_wrapper  # the type of what functools.lru_cache makes
from pathlib import Path
from typing import Any, TypeVar

import psutil

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
_NAMES = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Allocated(ctypes.Structure):
    """What `mallinfo2` returns. `uordblks` is what is in use, `hblkhd` what was mapped on its own."""

    _fields_ = [(name, ctypes.c_size_t) for name in _NAMES.split()]


@dataclass
class Readings:
    """What the process held after some candidates. Memory in bytes, without the database."""

    memory: list[int] = field(default_factory=list[int])
    descriptors: list[int] = field(default_factory=list[int])
    tasks: list[int] = field(default_factory=list[int])

    def read(self) -> None:
        _empty_bounded_caches()
        gc.collect()
        self.memory.append(_bytes_in_use())
        self.descriptors.append(psutil.Process().num_fds())
        self.tasks.append(len(asyncio.all_tasks()))


class Watched:
    """A population that takes a reading after some numbers of candidates, and keeps `leak` bytes of each candidate."""

    def __init__(self, inner: MemoryPopulation, moments: Sequence[int], leak: int) -> None:
        self._inner, self._moments, self._leak = inner, moments, leak
        self._kept: list[bytearray] = []
        self._candidates = 0
        self.readings = Readings()

    async def commit(self, *facts: Fact) -> None:
        await self._inner.commit(*facts)
        for fact in facts:
            if isinstance(fact, Evaluated):
                self._candidates += 1
                if self._leak:
                    self._kept.append(bytearray(self._leak))
                if self._candidates in self._moments:
                    self.readings.read()

    async def read(self, question: Question[T]) -> T:
        return await self._inner.read(question)


def _bytes_in_use() -> int:
    allocated = ctypes.CDLL(None).mallinfo2
    allocated.restype = _Allocated
    of_sqlite = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    of_sqlite.restype = ctypes.c_int64
    found = allocated()
    return found.uordblks + found.hblkhd - of_sqlite()


def _empty_bounded_caches() -> None:
    """Empty our caches with a limit, which grow up to it and are no leak. A cache without a limit is kept. They are
    found by their type alone, because `isinstance` also calls the object, and some objects warn."""
    caches: list[Any] = [one for one in gc.get_objects() if type(one) is _lru_cache_wrapper]
    for cache in caches:
        if cache.__module__.startswith("pace_async") and cache.cache_parameters()["maxsize"] is not None:
            cache.cache_clear()
    for memo in (programs._programs, programs._sent, programs._compiled_parts):
        memo.__init__(programs.REMEMBERED)


def soak(folder: Path, candidates: int, leak: int) -> Readings:
    """Readings at half of the run and near its end."""
    moments = candidates // 2, candidates - 100
    config = config_of(Scenario(threads=8, group_size=8, bound=2, durations=MINUTES, candidates=candidates))

    async def run() -> Readings:
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
        return watched.readings

    return run_virtually(run)


if __name__ == "__main__":
    print(json.dumps(asdict(soak(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))))
