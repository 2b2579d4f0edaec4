"""The one place where a run's state changes: commit first, then change what is known, then show it.

Search threads and the learning loop meet here and nowhere else. Whoever changes the state wakes those who can go on
then, and each looks again (`waiting`). Admission is first come, first served, where an island comes in the order of its
last lease (`state.Turn`): so neither the speed of a stage nor a crash changes who gets which lease.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from pace_async.advise.base import Engine
from pace_async.config import Config
from pace_async.errors import InfrastructureFault
from pace_async.evaluate.base import Evaluator
from pace_async.events import Fact, FaultSeen, GroupShipped, IslandActed, LeaseOpened, Sight
from pace_async.implement.base import Implementer
from pace_async.learn.base import Learner
from pace_async.observe.bus import Bus
from pace_async.population.base import Population
from pace_async.publish.base import Publisher
from pace_async.runtime.clock import Clock
from pace_async.runtime.fresh import FreshInstances
from pace_async.runtime.state import RunState, Work
from pace_async.runtime.stopping import Progress, Reason, reason_to_stop
from pace_async.runtime.turns import Turns
from pace_async.runtime.waiting import Line, Waiting
from pace_async.search.acting import after_action, decide
from pace_async.search.choice import rules_of
from pace_async.search.draws import generator
from pace_async.search.momentum import goal_of
from pace_async.search.parents import choose_migrant
from pace_async.search.state import Member, Rules
from pace_async.task import Task

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stages:
    """The real or simulated other side of every seam. Without a learner nothing is trained."""

    engine: Engine
    implementer: Implementer
    evaluator: Evaluator
    population: Population
    clock: Clock
    learner: Learner | None
    publisher: Publisher | None


@dataclass(slots=True)
class Core:
    """State, seams, and what ties the tasks of a run together. Without `fresh` new bests are believed.
    `refuse_if_gone` raises GaveUp where the run's folder is gone: SQLite would write on into a file without a name."""

    config: Config
    task: Task
    horizon: int
    state: RunState
    stages: Stages
    bus: Bus
    groups_folder: Path
    shipped: GroupShipped | None = None
    fresh: FreshInstances | None = None
    refuse_if_gone: Callable[[], None] = lambda: None
    turns: Turns | None = None
    threads: bool = False
    """Whether long work goes to a thread: then what happens when depends on the machine."""
    started: float = 0.0
    stopping: Reason | None = None
    engine_up: bool = True
    _waiting: Waiting = field(default_factory=Waiting)
    _line: Line = field(init=False)
    rules: Rules = field(init=False)
    """What is fixed about the islands of this run."""

    def __post_init__(self) -> None:
        """Every island without work waits already, whether or not its thread has started."""
        bounds, direction = self.task.spec.bounds, self.task.spec.direction
        self.rules = rules_of(self.config.search, direction, goal_of(direction, bounds.lower, bounds.upper))
        busy = {work.island for work in self.state.unfinished}
        self._line = Line(self.state.turn_of(island) for island in self.state.islands if island not in busy)

    async def record(self, *facts: Fact) -> None:
        """Commit facts in one transaction, then show them."""
        self.refuse_if_gone()
        await self.stages.population.commit(*facts)
        for fact in facts:
            self.bus.publish(fact)

    async def apart(self, work: Callable[[], T]) -> T:
        """The result of long work, for which the event loop does not stand still."""
        return await to_thread.run_sync(work) if self.threads else work()

    def show(self, sight: Sight) -> None:
        """Show something that is not worth a row."""
        self.bus.publish(sight)

    def changed(self) -> None:
        """Decide whether the run ends; wake those who can go on."""
        if self.stopping is None:
            self.stopping = reason_to_stop(self.config.stop, self.progress(), self.task.spec.direction)
        if self.stopping is not None:
            self._line.wake_all()
        elif self._room():
            self._line.wake_first()
        self._waiting.changed()

    def stop(self, reason: Reason) -> None:
        """Open no further lease; what runs may finish."""
        self.stopping = self.stopping or reason
        self.changed()

    def progress(self) -> Progress:
        """What the stop rules look at."""
        return Progress(
            candidates=self.state.evaluated,
            groups=self.state.groups - bool(self.state.training),
            minutes=(self.stages.clock.monotonic() - self.started) / 60,
            spend_usd=self.state.spend_usd,
            best=self.state.best.score if self.state.best else None,
        )

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once `condition()` holds; it is looked at after every change."""
        await self._waiting.until(condition)

    async def admit(self, island: int) -> Work | None:
        """The next lease for an island's thread, or None when the run is ending. What an earlier process left
        unfinished on this island comes first."""
        for place, work in enumerate(self.state.unfinished):
            if work.island == island:
                return self.state.unfinished.pop(place)
        turn = self.state.turn_of(island)
        self._line.enter(turn)
        try:
            while self.stopping is None and not (self._line.is_first(turn) and self._room()):
                await self._line.wait(turn)
            if self.stopping is not None:
                return None
            served = self.state.served
            lease = self.state.open_lease(island)
        finally:
            self._line.leave(turn)
            self.changed()
        now = self.stages.clock.now()
        acted, migrant = self._act(lease.lease, island, now)
        arrived = migrant.candidate if migrant is not None else None
        await self.record(LeaseOpened(lease.lease, island, lease.deadline, served, now, arrived), *acted)
        return Work(lease, island, migrant)

    def _act(self, lease: int, number: int, now: float) -> tuple[tuple[IslandActed, ...], Member | None]:
        """What an island does as it opens a lease, if anything, and the parent that comes from another. Nobody else
        looks at the island before the lease is committed."""
        state, seed = self.state, self.config.seed
        island, rules = state.islands[number], self.rules
        acted = decide(
            island, state.elites, state.pools, rules, lease=lease, draw=lambda: generator(seed, lease, "action"), at=now
        )
        if acted is None:
            draw = generator(seed, lease, "migrant")
            search = self.config.search
            return (), choose_migrant(
                state.elites,
                island,
                rules.direction,
                draw,
                probability=search.migration,
                size=search.tournament_size,
            )
        partner = acted.partner
        arriving = state.pools[partner].ideas if partner is not None else ()
        state.islands[number] = after_action(island, acted, arriving, rules)
        return (acted,), state.elites[partner] if partner is not None else None

    def _room(self) -> bool:
        limit = self.config.stop.candidates
        under_limit = limit is None or self.state.evaluated + len(self.state.running) < limit
        return under_limit and self.state.may_admit()

    async def fault(self, where: str, fault: InfrastructureFault, lease: int | None = None) -> None:
        """Record that something outside failed."""
        await self.record(FaultSeen(where, fault.kind, fault.detail, lease, self.stages.clock.now()))

    def backoff(self, attempt: int) -> float:
        """Seconds to wait before try `attempt` (from 1): doubling, at most 30."""
        return self.config.faults.backoff(attempt)
