"""The state of a search thread: values only, rebuilt from committed rows, never changed in place.

One thread is one island, with its own members, its own idea pool and its own history. A score is in the task's own
units, and the task says which are better.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pace_async.aims import Costs
from pace_async.config import SearchConfig
from pace_async.events import IslandActed, Practised
from pace_async.fitness import Fitness
from pace_async.frozen_values import fast_init


@fast_init
@dataclass(frozen=True, slots=True)
class Member:
    """A program that may be a parent. `candidate` is its id, 0 for the task's own initial program. `feedback` is what
    its evaluator wrote for the author of the next program, if the task allows it, and `practice` is what it did on
    practice instances, if the run has them. `costs` are empty unless the task has several objectives."""

    candidate: int
    program: str
    score: float
    feedback: str | None = None
    practice: Practised | None = None
    costs: Costs = ()


@fast_init
@dataclass(frozen=True, slots=True)
class Trial:
    """One experiment on an idea and its result. `score` is None if it failed."""

    candidate: int
    description: str
    outcome: str
    score: float | None


@dataclass(frozen=True, slots=True)
class Tally:
    """Totals of experiments: their number, the candidate of the last (0: none), the lowest and the highest score, and
    the count of each outcome without a score, by name."""

    tried: int = 0
    last: int = 0
    lowest: float | None = None
    highest: float | None = None
    failures: tuple[tuple[str, int], ...] = ()


@fast_init
@dataclass(frozen=True, slots=True)
class Idea:
    """A hypothesis of an island's pool and its latest experiments, oldest first. `earlier` counts those before them."""

    number: int
    description: str
    trials: tuple[Trial, ...] = ()
    earlier: Tally = Tally()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An island when it found a new best: that program and the pool at that time. `bytes` is the size of its texts."""

    best: Member
    ideas: tuple[Idea, ...]
    bytes: int = field(compare=False, repr=False)


@fast_init
@dataclass(frozen=True, slots=True)
class Course:
    """The course of an island's search. `momentum` is in [0, 1], `updates` counts its changes, `since` counts the
    rollouts that ended since the last action, and `history` is oldest first. `stay` are the rollouts left after a
    backtrack, with the ideas set `aside` meanwhile. `acted` is the last action with its reason."""

    momentum: float = 0.0
    updates: int = 0
    since: int = 0
    history: tuple[Snapshot, ...] = ()
    stay: int = 0
    aside: tuple[Idea, ...] = ()
    acted: IslandActed | None = None


@dataclass(frozen=True, slots=True)
class Visits:
    """The record of a member as a parent: `expansions` rollouts from it or its descendants, and `best_child`, the best
    score among its own children. `parent` is the nearest ancestor that is still a member."""

    parent: int | None
    expansions: int = 0
    best_child: float | None = None


UNTRIED = Visits(parent=None)


@fast_init
@dataclass(frozen=True, slots=True)
class Island:
    """Members (best first, equal scores by age), how often each was tried (by candidate, untried ones are missing), the
    pool of ideas and the course of one search thread."""

    number: int
    members: tuple[Member, ...]
    ideas: tuple[Idea, ...] = ()
    next_idea: int = 1
    visits: Mapping[int, Visits] = field(default_factory=dict[int, Visits])
    course: Course = Course()


@dataclass(frozen=True, slots=True)
class VisiblePool:
    """The pool of an island as visible to others: its state when the rollout of `lease` ended."""

    lease: int
    ideas: tuple[Idea, ...]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What islands show one another, by island: the best program and the ideas of each that has closed a lease."""

    elites: Mapping[int, Member]
    pools: Mapping[int, VisiblePool]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a run's islands: the task's fitness, how much is kept, and the settings of
    momentum and actions (see `search.islands` and `search.actions`). `room` is the limit in bytes of the programs of an
    island's members, and also that of its history. None: no limit. `memory` is `search.memory` (see `state.memory`):
    with "pool" an island has a pool of ideas, else its pool stays empty."""

    fitness: Fitness
    ideas_kept: int
    members_kept: int
    backtracking: bool
    actions: str
    decay: float
    trigger: float
    interval: int
    stay: int
    room: int | None = None
    memory: str = "pool"


def rules_of(search: SearchConfig, fitness: Fitness) -> Rules:
    """The rules from the settings, for a task with this fitness."""
    return Rules(
        fitness=fitness,
        ideas_kept=search.ideas_kept,
        members_kept=search.members_kept,
        room=None if search.memory_mb is None else search.memory_mb * 2**19 // search.threads,
        memory=search.remembers,
        backtracking=search.backtracking,
        actions=search.actions,
        decay=search.momentum_decay,
        trigger=search.momentum_trigger,
        interval=search.action_interval,
        stay=search.backtrack_stay,
    )


@fast_init
@dataclass(frozen=True, slots=True)
class SearchContext:
    """The advisor's view: the parent, the best of the island, the pool, and the number of the island's next idea."""

    parent: Member
    best: Member
    ideas: tuple[Idea, ...]
    next_idea: int = 1
