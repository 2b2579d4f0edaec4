"""The common x axis of drawings: groups, complete candidates, or hours since the run began. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pace_async.population.reading.account import Account, ShippedGroup

By = Literal["candidates", "groups", "hours"]
CHOICES: tuple[By, ...] = get_args(By)
_NAMED: dict[str, By] = {choice: choice for choice in CHOICES}
MOST = 400
"""Points of one line. Of a longer run a point is the mean of several neighbours."""


def by_of(name: str) -> By:
    """The axis of that name, else the first one."""
    return _NAMED.get(name, CHOICES[0])


@dataclass(frozen=True, slots=True)
class Axis:
    """Places of groups and candidates on the axis `by`. `candidates` and `groups` have their ends, in order."""

    by: By
    began: float
    candidates: Sequence[float]
    groups: Sequence[float]

    def at(self, seconds: float) -> float:
        """The place of a time, in seconds since the epoch."""
        if self.by == "hours":
            return max(0.0, seconds - self.began) / 3600
        return float(bisect_right(self.candidates if self.by == "candidates" else self.groups, seconds))

    def of(self, group: ShippedGroup) -> float | None:
        """The place of a group, None before its end on an axis that needs it."""
        if self.by == "groups":
            return float(group.group_number)
        return None if group.ended_at is None else self.at(group.ended_at)

    @property
    def edges(self) -> tuple[float, float]:
        """The range of the axis."""
        if self.by == "groups":
            return 0.0, float(max(1, len(self.groups)))
        if self.by == "candidates":
            return 0.0, float(max(1, len(self.candidates)))
        last = max([*self.candidates[-1:], *self.groups[-1:]], default=self.began)
        return 0.0, max(1e-6, self.at(last))


def axis_of(account: Account, by: By) -> Axis:
    """The axis of a run."""
    ended = sorted(row.ended_at for row in account.groups if row.ended_at is not None)
    return Axis(by, account.began, [row.at for row in account.candidates], ended)


def thinned(points: Sequence[tuple[float, float]], most: int = MOST) -> list[tuple[float, float]]:
    """At most `most` points: each the mean of equally many neighbours."""
    each = -(-len(points) // most)
    if each <= 1:
        return list(points)
    parts = (points[first : first + each] for first in range(0, len(points), each))
    return [(sum(xs) / len(xs), sum(ys) / len(ys)) for xs, ys in (zip(*part, strict=True) for part in parts)]
