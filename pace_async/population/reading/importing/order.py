"""The order of facts whose commits were not numbered. Pure.

Facts come by their times. No fact comes before one that it rests on, whatever their times say. Of equal times those
without a lease come first, then the smaller lease, and within a lease the order of a rollout's life. Changes of the
run's state come last, except the one that begins it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from pace_async.errors import PaceBug
from pace_async.events import Fact

Key = tuple[str, int, int]
"""What a step is called: what happened, perhaps with where after a space, and up to two numbers, else 0."""
LAST = 1 << 62
"""Greater than every lease."""
LIFE = ("opened", "acted", "reserved", "called", "advised", "chosen", "tried", "practised", "stage", "attempted")
"""A rollout's life. Everything else comes after these, in the order of `Step.key`."""


@dataclass(frozen=True, slots=True)
class Step:
    """A fact and its place. `at` is its time. `lease` is 0 without one. `fact` is None where its texts are read later,
    or it stands there without them: `texts`. `after` are the steps that it rests on. Those that do not exist are
    ignored."""

    key: Key
    at: float
    lease: int
    fact: Fact | None
    after: tuple[Key, ...] = ()
    texts: bool = False

    @property
    def place(self) -> tuple[float, int, int, Key]:
        """Where the step comes among those that it may come with."""
        event = self.key[0].partition(" ")[0]
        return self.at, self.lease, LIFE.index(event) if event in LIFE else len(LIFE), self.key


def in_order(steps: Iterable[Step]) -> list[Step]:
    """The steps in their order. Raises PaceBug if some rest on each other."""
    by_key = {step.key: step for step in steps}
    missing: dict[Key, int] = {}
    followers: dict[Key, list[Step]] = {}
    ready: list[tuple[tuple[float, int, int, Key], Step]] = []
    for step in by_key.values():
        needed = {key for key in step.after if key in by_key}
        missing[step.key] = len(needed)
        for key in needed:
            followers.setdefault(key, []).append(step)
        if not needed:
            heappush(ready, (step.place, step))
    ordered: list[Step] = []
    while ready:
        _, step = heappop(ready)
        ordered.append(step)
        for follower in followers.get(step.key, ()):
            missing[follower.key] -= 1
            if not missing[follower.key]:
                heappush(ready, (follower.place, follower))
    if len(ordered) < len(by_key):
        stuck = min(step.place for step in by_key.values() if missing[step.key])[-1]
        raise PaceBug(f"the rows rest on each other: no fact can come first, as with {stuck}")
    return ordered
