"""The shared core of search threads and the learning loop: state, seams, waiting, and the end of the run.

Only `record` changes the state of the run. After each change the tasks whose condition now holds are woken, and each
tests its condition again (`Waiters`). Islands are admitted in the order of their last lease (`Turn`), so neither the
speed of a stage nor a crash changes which island gets which lease.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar, get_args

from anyio import to_thread

from pace_async.advise.advisor import Chooser, Sampling, ServedAdvisor
from pace_async.advise.base import Advisor, Engine
from pace_async.advise.wording import Wording
from pace_async.config import Config, StopConfig
from pace_async.config.advisor import END_OF_THINKING
from pace_async.context.questions import Prompts
from pace_async.context.templates import Templates
from pace_async.context.value import Surroundings
from pace_async.errors import InfrastructureFault, PaceBug
from pace_async.evaluate.base import Evaluator
from pace_async.events import (
    AdmissionHeld,
    Fact,
    FaultSeen,
    IslandActed,
    LeaseOpened,
    ProgramGiven,
    Purpose,
    TransientEvent,
)
from pace_async.implement.base import Implementer
from pace_async.implement.notes_writer import NotesWriter
from pace_async.learn.base import Learner
from pace_async.observe.bus import Bus
from pace_async.outside import sound
from pace_async.population.reading.inbox import Entry, named_in, one_line, waiting_in
from pace_async.publish.base import Publisher
from pace_async.reward import RewardRule
from pace_async.runtime.run.clock import Clock
from pace_async.runtime.run.fresh import FreshInstances
from pace_async.runtime.run.loop_turns import LoopTurns
from pace_async.runtime.run.recorder import ClaimedPlace, Recorder
from pace_async.runtime.run.waiting import Line, Waiters
from pace_async.runtime.run.work import LeaseWork, unfinished
from pace_async.search.actions import decide
from pace_async.search.draws import generator
from pace_async.search.ideas import Pool
from pace_async.search.parents import choose_migrant
from pace_async.search.state import Member, Neighbours
from pace_async.state.notes import group_to_see
from pace_async.state.run_state import Opening, RunState
from pace_async.state.stop_rules import STOP_RULES, StopValues, reason_to_stop
from pace_async.task import Task

INTERRUPTED = "interrupted"
"""Why a run ends that a person or the system ends. Every other reason is the name of a stop rule."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stages:
    """The real or simulated other side of every seam. An advisor that is `asked` over the network needs no engine,
    and neither does a `chooser`, which has no model.
    Without a learner nothing is trained. `wording` is the advisor's own, if it has one. What an answer of the engine
    has up to the last `end_of_thinking` is not parsed. `notes` writes the run's notes, if it has any."""

    engine: Engine | None
    implementer: Implementer
    evaluator: Evaluator
    clock: Clock
    learner: Learner | None
    publisher: Publisher | None
    wording: Wording | None = None
    asked: Advisor | None = None
    chooser: Chooser | None = None
    end_of_thinking: str = END_OF_THINKING
    notes: NotesWriter | None = None

    @property
    def advisor(self) -> Advisor:
        """What answers the prompts of rollouts."""
        if self.asked is not None:
            return self.asked
        if self.engine is None:
            raise PaceBug("a run has neither an engine nor an advisor to ask")
        return ServedAdvisor(self.engine, self.end_of_thinking, asyncio.get_running_loop().time)


@dataclass(slots=True)
class Core:
    """Connects the tasks of a run. Without `fresh` new bests are not confirmed. Except for the recorder, all values
    here belong to this process and are in no row: whether its engine is up, why it stops, whether a person holds back
    new leases (`held`), the leases left by an earlier process (`unfinished`), the leases that stay open for a resume
    (`parked`), the repeats of a lease's program (`repeating`), and the parents that are being measured again
    (`measuring`)."""

    config: Config
    task: Task
    horizon: int
    recorder: Recorder
    stages: Stages
    groups_folder: Path
    run: str = "run"
    """Its name, which is part of the identity of an evaluation."""
    fresh: FreshInstances | None = None
    prompts: Prompts | None = None
    """What questions are made of, where a run has a context."""
    turns: LoopTurns | None = None
    inbox_waits: bool = False
    """Whether given programs, or words about candidates, were in the inbox as this process began. A run whose models
    read no words looks there only then."""
    threads: bool = False
    """Whether long work goes to a thread: then what happens when depends on the machine."""
    started: float = 0.0
    stopping: str | None = None
    held: bool = False
    engine_up: bool = True
    untrained: int = 0
    """See `StopValues`."""
    best_after: tuple[float | None, int, float] = (None, 0, 0.0)
    """The best score, and when this process first saw it: the candidates that had ended, and the monotonic clock."""
    parked: set[int] = field(default_factory=set[int])
    repeating: dict[int, int] = field(default_factory=dict[int, int])
    measuring: set[int] = field(default_factory=set[int])
    state: RunState = field(init=False)
    bus: Bus = field(init=False)
    unfinished: list[LeaseWork] = field(init=False)
    sampling: Sampling = field(init=False)
    reward: RewardRule = field(init=False)
    _waiting: Waiters = field(default_factory=Waiters)
    _line: Line = field(init=False)
    _offered: Entry | None = None
    _pinned: Member | None = None

    def __post_init__(self) -> None:
        """Every island without work waits already, whether or not its thread has started."""
        self.state, self.bus = self.recorder.state, self.recorder.bus
        self.unfinished = unfinished(self.state)
        self.sampling = sampling_of(self.config)
        if self.prompts is None and self.state.memory.active:
            self.prompts = prompts_of(self.config, self.task, Surroundings())
        self.reward = RewardRule.of(self.config.reward, self.task.spec)
        busy = {work.island for work in self.unfinished}
        self._line = Line(self.state.turn_of(island) for island in self.state.islands if island not in busy)

    async def record(self, *facts: Fact) -> None:
        """Commit facts in one transaction, apply them, show them. Raises GaveUp."""
        await self.recorder.record(*facts)

    async def apart(self, work: Callable[[], T]) -> T:
        """The result of long work, done without blocking the event loop."""
        return await to_thread.run_sync(work) if self.threads else work()

    def show(self, event: TransientEvent) -> None:
        """Show a transient event."""
        self.bus.publish(event)

    def changed(self) -> None:
        """Decide whether the run ends. Wake the tasks that can go on."""
        if self.stopping is None:
            self.stopping = reason_to_stop(self.config.stop, self.progress(), self.task.spec.fitness)
        if self.stopping is not None:
            self._line.wake_all()
        elif self._room():
            self._line.wake_first()
        self._waiting.changed()

    def stop(self, reason: str) -> None:
        """Open no further lease. Running rollouts may finish."""
        self.stopping = self.stopping or reason
        self.changed()

    def hold(self, held: bool) -> None:
        """Open no further lease until `hold(False)`, or open them again. What is in flight goes on, and so do learning
        and the stop rules. A resume holds nothing back."""
        if held != self.held:
            self.held = held
            self.show(AdmissionHeld(held, self.stages.clock.now()))
            self.changed()

    def progress(self) -> StopValues:
        """The values that stop rules test."""
        state = self.state
        best, now = state.best.score if state.best else None, self.stages.clock.monotonic()
        if best != self.best_after[0]:
            self.best_after = best, state.evaluated, now
        return StopValues(
            candidates=state.evaluated,
            groups=state.groups - bool(state.training),
            minutes=(now - self.started) / 60,
            spend_usd=state.spend_usd,
            best=best,
            since_best=state.evaluated - self.best_after[1],
            minutes_since_best=(now - max(self.started, self.best_after[2])) / 60,
            untrained=self.untrained,
        )

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once `condition()` holds. It is tested after every change."""
        await self._waiting.until(condition)

    @property
    def at_work(self) -> int:
        """Leases that threads of this process work on."""
        return self.state.working - len(self.parked)

    def park(self, lease: int) -> None:
        """Leave a running lease open for a resume. It keeps its deadline."""
        self.parked.add(lease)

    async def admit(self, island: int) -> LeaseWork | None:
        """The next lease for an island's thread, or None when the run is ending. Leases that an earlier process left
        unfinished on this island come first."""
        for place, work in enumerate(self.unfinished):
            if work.island == island:
                return self.unfinished.pop(place)
        if not await self._reached(island):
            self.changed()
            return None
        lease, now = self.state.next_lease(), self.stages.clock.now()
        if (entry := self._offered) is not None:
            return await self._admit_given(entry, Opening(lease, island, self.state.served, entry=entry.entry), now)
        if (migrant := self._pinned) is not None:
            acted, arriving, self._pinned = (), (), None
        else:
            acted, migrant, arriving = self._act(lease.lease, island, now)
        place = Opening(lease, island, self.state.served, migrant, arriving)
        with ClaimedPlace.lease(self.state, place):
            self.changed()
            arrived = migrant.candidate if migrant is not None else None
            await self.record(LeaseOpened(lease.lease, island, lease.deadline, place.served, now, arrived), *acted)
        return LeaseWork(lease, island, migrant)

    async def _admit_given(self, entry: Entry, place: Opening, now: float) -> LeaseWork:
        """A lease for a given program."""
        lease, self._offered = place.lease, None
        fact = ProgramGiven(lease.lease, entry.entry, sound(entry.program or ""), one_line(entry.text), now)
        with ClaimedPlace.lease(self.state, place):
            self.changed()
            await self.record(LeaseOpened(lease.lease, place.island, lease.deadline, place.served, now), fact)
        return LeaseWork(lease, place.island, given=fact)

    async def _reached(self, island: int) -> bool:
        """Wait until it is the island's turn and there is room. Returns False when the run is ending."""
        turn = self.state.turn_of(island)
        self._line.enter(turn)
        try:
            looked = not (self.state.memory.active or self.inbox_waits or self.state.steering.awaited())
            while self.stopping is None:
                if not (self._line.is_first(turn) and self._room()):
                    await self._line.wait(turn)
                elif looked:
                    break
                else:  # still the first in line, so no other island opens a lease meanwhile
                    looked = True
                    await self._take_in()
        finally:
            self._line.leave(turn)
        return self.stopping is None

    async def _take_in(self) -> None:
        """Take in the ideas and words that people have put into the inbox, and the next program, for which the lease
        opens, or else the pinned candidate on which it builds. A database that is away is asked at the next lease."""
        self._pinned = None
        entries = await waiting_in(self.recorder.population, self.run, self.state.newest_entry)
        if entries is None:
            return
        await self._hear([each for each in entries if each.program is None])
        program = next((each for each in entries if each.program is not None), None)
        self.inbox_waits = program is not None
        if program is not None and program.entry > self.state.newest_entry:  # another island may have been faster
            self._offered = program

    async def _hear(self, words: Sequence[Entry]) -> None:
        """Take in these, without words that nobody reads, or that are about a candidate without a score. Find the
        candidate that waits longest for a lease that builds on it."""
        active, openings = self.state.memory.active, self.state.claimed.openings.values()
        words = [each for each in words if active or each.subject == "candidate"]
        numbers = {each.number or 0 for each in words if each.subject == "candidate"}
        candidates = await self._members_of(numbers)
        if candidates is None:
            return
        heard = [each for each in words if each.subject != "candidate" or (each.number or 0) in candidates]
        if heard:
            after, now = self.state.last_lease, self.stages.clock.now()
            group = (group_to_see(self.state) if self.state.open else None) or 0
            with ClaimedPlace.named(self.state, candidates):
                await self.record(*(each.taken_in(after, now, group) for each in heard))
        opening = {place.migrant.candidate for place in openings if place.migrant is not None}
        number = next((candidate for candidate in self.state.steering.awaited() if candidate not in opening), None)
        if number is not None and (members := await self._members_of([number])):
            self._pinned = members[number][1]

    async def _members_of(self, candidates: Collection[int]) -> Mapping[int, tuple[int, Member]] | None:
        return await named_in(self.recorder.population, self.run, candidates, self.state.terms.rules.fitness)

    def _act(self, lease: int, number: int, now: float) -> tuple[tuple[IslandActed, ...], Member | None, Pool]:
        """The action of an island as it opens a lease, if any, and the parent and ideas from another island."""
        state, seed, rules = self.state, self.config.seed, self.state.terms.rules
        island, visible = state.islands[number], self.state.seen
        others = Neighbours(visible.elites, visible.pools)
        acted = decide(island, others, rules, lease=lease, draw=lambda: generator(seed, lease, "action"), at=now)
        if acted is not None:
            partner = acted.partner
            if partner is None:
                return (acted,), None, ()
            return (acted,), visible.elites[partner], visible.pools[partner].ideas
        search = self.config.search
        migrant = choose_migrant(
            visible.elites,
            island,
            rules.fitness,
            generator(seed, lease, "migrant"),
            probability=search.migration,
            size=search.tournament_size,
            front=visible.front,
            pool=search.tournament_pool,
            lease=lease,
            repeated=state.repeated,
        )
        return (), migrant, ()

    def _room(self) -> bool:
        limit = self.config.stop.candidates
        under_limit = limit is None or self.state.evaluated + self.at_work < limit
        return not self.held and under_limit and self.state.may_admit()

    async def fault(self, where: str, fault: InfrastructureFault, lease: int | None = None) -> None:
        """Record a failure of a service or the machine."""
        await self.record(FaultSeen(where, fault.kind, fault.detail, lease, self.stages.clock.now()))

    def backoff(self, attempt: int) -> float:
        """Seconds to wait before try `attempt` (from 1): doubling, at most 30."""
        return self.config.faults.backoff(attempt)


def prompts_of(config: Config, task: Task, around: Surroundings) -> Prompts:
    """What the questions of a run are made of. Raises UsageError for templates that cannot be found."""
    templates = Templates.of(config.prompts, task.folder)
    search = config.search
    longest: dict[str, int] = {purpose: config.advisor.longest(purpose) for purpose in get_args(Purpose)}
    longest["implement"] = config.implementer.longest_answer
    task = replace(task, spec=task.spec.under(config.evaluation.settings))
    return Prompts(
        *(task, templates, around, config.prompts.tokens, search.untried_kept, search.notes_every, longest),
        drop_ideas=search.drop_ideas,
        end_to_end=config.advisor.writes_code,
        candidates=config.stop.candidates,
    )


def sampling_of(config: Config) -> Sampling:
    """How the advisor's answers are sampled, and what its prompts contain."""
    return Sampling(
        seed=config.seed,
        temperature=config.advisor.temperature,
        ideas_kept=config.search.ideas_kept,
        trials_shown=config.search.trials_shown,
        summary_from=config.search.summary_from,
        max_prompt_tokens=config.advisor.max_prompt_tokens,
        one_call=config.advisor.calls == "one",
        max_tokens_by_call={purpose: config.advisor.longest(purpose) for purpose in get_args(Purpose)},
    )


def trains_leftovers(reason: str) -> bool:
    """Whether groups that are complete when the last candidate ends are still trained."""
    return reason in STOP_RULES and STOP_RULES[reason].whole


def default_horizon(stop: StopConfig, group_size: int) -> int:
    """Groups over which alpha grows if the configuration names none: as many as the stop rules allow, else 100."""
    limits = [limit for limit in (stop.updates, (stop.candidates or 0) // group_size) if limit]
    return max(1, min(limits)) if limits else 100
