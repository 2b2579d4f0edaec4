"""Which of several programs no other one surpasses, how they spread, and how much they dominate. Pure.

Programs are given by their costs (see `aims`): total violation first, then the distances, the lower the better. One
dominates another if it breaks its constraints less, or as much and is nowhere worse and somewhere better (Deb's rule).
Ranks and crowding distances are those of NSGA-II (Deb et al., 2002): rank 0 is the front.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np

from pace_async.aims import Costs


class FrontMember(Protocol):
    """What stands on a front: something that belongs to a candidate and has its costs."""

    @property
    def candidate(self) -> int: ...
    @property
    def costs(self) -> Costs: ...


V = TypeVar("V", bound=FrontMember)


def dominates(a: Costs, b: Costs) -> bool:
    """Whether a program with costs `a` surpasses one with costs `b`."""
    if a[0] != b[0]:
        return a[0] < b[0]
    return a != b and all(cost <= other for cost, other in zip(a, b, strict=True))


def ranks(points: Sequence[Costs]) -> list[int]:
    """The rank of each: how often the front has to be taken away before it is on the front."""
    costs = np.array(points, dtype=float)
    point, other = costs[:, None, :], costs[None, :, :]
    surpasses = (point <= other).all(2) & (point < other).any(2) & (point[..., 0] == other[..., 0])
    surpasses |= point[..., 0] < other[..., 0]
    ranking, left, rank = np.full(len(points), -1), np.ones(len(points), dtype=bool), 0
    while left.any():
        front = left & ~surpasses[left].any(0)
        ranking[front], rank = rank, rank + 1
        left &= ~front
    return ranking.tolist()


def crowding(points: Sequence[Costs]) -> list[float]:
    """The crowding distance of each among all of these: the sum over the objectives of the gap between its neighbours
    as a share of the whole. The ends of each objective are infinitely far from others."""
    distances = [0.0] * len(points)
    for axis in range(1, len(points[0]) if points else 1):
        order = sorted(range(len(points)), key=lambda place: points[place][axis])
        whole = points[order[-1]][axis] - points[order[0]][axis]
        distances[order[0]] = distances[order[-1]] = float("inf")
        for before, place, after in zip(order, order[1:], order[2:], strict=False):
            distances[place] += (points[after][axis] - points[before][axis]) / whole if whole else 0.0
    return distances


def by_front(things: Sequence[V]) -> list[tuple[int, V]]:
    """All of them with their ranks: those of a lower rank first, of one rank the least crowded, then the oldest."""
    ranked: dict[int, list[V]] = {}
    for rank, thing in zip(ranks([thing.costs for thing in things]), things, strict=True):
        ranked.setdefault(rank, []).append(thing)
    return [(rank, thing) for rank in sorted(ranked) for thing in least_crowded(ranked[rank])]


def least_crowded(things: Sequence[V]) -> list[V]:
    """The same ones, the least crowded first and of equally crowded ones the oldest."""
    far = crowding([thing.costs for thing in things])
    order = sorted(range(len(things)), key=lambda place: (-far[place], things[place].candidate))
    return [things[place] for place in order]


def with_point(front: tuple[V, ...], new: V) -> tuple[V, ...]:
    """The front with one more program. In which order programs come makes no difference: of equal costs the oldest
    stays, and all stand by their candidate."""
    for known in front:
        if dominates(known.costs, new.costs) or (known.costs == new.costs and known.candidate <= new.candidate):
            return front
    rest = [known for known in front if known.costs != new.costs and not dominates(new.costs, known.costs)]
    return tuple(sorted((*rest, new), key=lambda each: each.candidate))


def front_of(things: Sequence[V]) -> tuple[V, ...]:
    """Those that no other one surpasses, by their candidate. Of equal ones the oldest."""
    front: tuple[V, ...] = ()
    for thing in things:
        front = with_point(front, thing)
    return front


def hypervolume(points: Sequence[Costs]) -> float:
    """The share in [0, 1] of the box between the bounds that feasible programs dominate. Exact, by slices along the
    last objective: for fronts of at most some hundred programs and a few objectives."""
    inside = {tuple(min(1.0, max(0.0, cost)) for cost in point[1:]) for point in points if point[0] == 0.0}
    return _volume(sorted(inside, key=lambda point: point[::-1]))


def _volume(points: Sequence[Costs]) -> float:
    """What points dominate up to 1 in every coordinate. They are sorted by the last one, then the one before it."""
    if not points:
        return 0.0
    if len(points[0]) == 1:
        return 1.0 - points[0][0]
    total, slab = 0.0, list[Costs]()
    for place, point in enumerate(points):
        head = point[:-1]
        if not any(all(cost <= other for cost, other in zip(known, head, strict=True)) for known in slab):
            slab = [known for known in slab if not all(h <= k for h, k in zip(head, known, strict=True))]
            slab = sorted([*slab, head], key=lambda each: each[::-1])
        until = points[place + 1][-1] if place + 1 < len(points) else 1.0
        if until > point[-1]:
            total += (until - point[-1]) * _volume(slab)
    return total
