"""Whole runs in memory, under virtual time, that end and go on at any commit."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio

from pace_async.config import Config
from pace_async.population.memory import MemoryPopulation
from pace_async.runtime.run.core import Core
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.durations import Durations
from pace_async.simulate.runs import TINY_TASK, SimulatedFaults, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import VirtualClock, run_virtually
from pace_async.task import Task
from tests.doubles.populations import Interrupting

TIMES = {
    *("at", "opened_at", "closed_at", "shipped_at", "ended_at", "written_at", "published_at", "started_at"),
    *("seconds", "queue_seconds"),
}


ROLLOUTS = """
select c.candidate, c.island, l.oldest_version, c.parent, e.description, c.program_hash, c.outcome, c.score, c.reward
from candidates c join leases l on l.lease = c.lease join experiments e on e.lease = c.lease order by c.candidate"""


SEARCH: dict[str, object] = {
    "search__migration": 0.5,
    "search__backtracking": True,
    "search__momentum_trigger": 0.1,
    "search__action_interval": 2,
    "search__backtrack_stay": 2,
    "faults__retries": 0,
}


REACH = 0.5
"""Islands that look at one another often, and act often: in a few rollouts everything happens that may. With
scores that reach half of the way, going back is about as likely as crossing over. A lease whose machine is lost is
aborted at once: the tries of a lease are counted by each process anew, which shows in the times."""


def durations(seed: int, generation: float = 3.0) -> Durations:
    return Durations(seed, 60.0, 0.6, None, generation, 2.0, 0.2)


class Life:
    """A run and the world around it. `live` is one process of it."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        world: World,
        faults: SimulatedFaults | None = None,
        task: Task = TINY_TASK,
    ) -> None:
        self.folder, self.config, self.world, self.task = folder, config, world, task
        self.faults = faults or SimulatedFaults()
        self.population = MemoryPopulation(header_of(config, task), with_journal=True)
        self.time = 0.0
        self.commits = 0
        self.state = "created"
        world.serve(0, None)
        run_virtually(lambda: self.population.commit(seed_program(task)))

    def live(self, last: int = 0, *, before: bool = False, begun: Callable[[Core], None] | None = None) -> "Life":
        """Drive it to its end, or up to its `last`-th commit from here, or until just before that. `begun` is given
        each process before it drives."""

        self.folder.mkdir(exist_ok=True)

        async def process() -> None:
            with anyio.CancelScope() as scope:
                population = Interrupting(self.population, scope, last, before=before)
                record = self.population.load()
                core = SimulatedRun(
                    self.config, self.task, VirtualClock(), self.world, self.folder, self.faults, Bytes()
                ).core(record, population)
                if begun is not None:
                    begun(core)
                self.state = "interrupted"
                try:
                    self.state = await drive(core)
                finally:
                    self.time = anyio.current_time()
                    self.commits = population.commits

        run_virtually(process, start=self.time)
        return self

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in run_virtually(lambda: self.population.query(sql))]

    def dump(self, *, times: bool = True, tables: Sequence[str] = (), columns: Sequence[str] = ()) -> list[str]:
        """Every row of every table but the journal's, whose facts have their times in them, without these tables and
        columns, with or without times."""
        lines = self.population.dump({*columns, *(() if times else TIMES)})
        return [line for line in lines if line.partition(":")[0] not in {*tables, "journal", "blobs"}]
