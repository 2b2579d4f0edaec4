"""What a search thread knows: values only, rebuilt from committed rows, never written to.

One thread is one island, with its own members, its own idea pool and its own history. A score is in the task's own
units; which direction is better stands in the task.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """A program that may be a parent. `candidate` is its id; 0 is the task's own initial program."""

    candidate: int
    program: str
    score: float


@dataclass(frozen=True, slots=True)
class Trial:
    """One experiment on an idea: what was done and what came of it. `score` is None where it failed."""

    candidate: int
    description: str
    outcome: str
    score: float | None


@dataclass(frozen=True, slots=True)
class Idea:
    """A hypothesis of an island's pool and the experiments on it, oldest first."""

    number: int
    description: str
    trials: tuple[Trial, ...] = ()


@dataclass(frozen=True, slots=True)
class Island:
    """Members (any order) and the pool of ideas of one search thread."""

    number: int
    members: tuple[Member, ...]
    ideas: tuple[Idea, ...] = ()
    next_idea: int = 1


@dataclass(frozen=True, slots=True)
class SearchContext:
    """What the advisor is shown: the parent, the best of the island, and the pool."""

    parent: Member
    best: Member
    ideas: tuple[Idea, ...]
