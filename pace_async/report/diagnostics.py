"""Diagnostics of a run: spikes, changes from the first quarter to the last, when a score was reached. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pace_async.fitness import Fitness

RUNNING = 16
"""Values whose median a spike is held against: those just before it."""
TWICE = 2.0
FEWEST = 8
"""Groups from which on there are spikes and a change of the spread. With eight, the last half has four, each held
against four or more before it, and a quarter has two."""
TOO_FEW = "too few groups"


def spikes(values: Sequence[float]) -> int:
    """How often the last half of the values rises beyond twice its running median. Neighbouring values beyond it are
    one spike."""
    beyond = [
        value > TWICE * statistics.median(values[max(0, place - RUNNING) : place])
        for place, value in enumerate(values)
        if place
    ]
    last = beyond[max(0, len(values) - len(values) // 2 - 1) :]
    return sum(now and not before for before, now in zip([False, *last], last, strict=False))


def quarters(values: Sequence[float]) -> tuple[float, float] | None:
    """The means of the first and of the last quarter, None without a value. A quarter has at least one value."""
    if not values:
        return None
    part = max(1, len(values) // 4)
    return statistics.fmean(values[:part]), statistics.fmean(values[-part:])


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Of a run: spikes of the entropy and of the gradient norm, and the spread of the rewards in a group (standard
    deviation) in its first and its last quarter of groups. Each is None with fewer than FEWEST groups. `trained` are
    the groups trained, `groups` all that have rewards."""

    entropy_spikes: int | None = None
    grad_norm_spikes: int | None = None
    reward_spread: tuple[float, float] | None = None
    trained: int = 0
    groups: int = 0


NO_DIAGNOSTICS = Diagnostics()


def diagnostics_of(entropy: Sequence[float], grad_norm: Sequence[float], spreads: Sequence[float]) -> Diagnostics:
    """From the figures of each trained group, and from the rewards' spread of each group."""
    return Diagnostics(
        entropy_spikes=spikes(entropy) if len(entropy) >= FEWEST else None,
        grad_norm_spikes=spikes(grad_norm) if len(grad_norm) >= FEWEST else None,
        reward_spread=quarters(spreads) if len(spreads) >= FEWEST else None,
        trained=max(len(entropy), len(grad_norm)),
        groups=len(spreads),
    )


def place_reaching(curve: Sequence[tuple[float, float]], score: float, fitness: Fitness) -> float | None:
    """The first place of a curve of (place, score) at which its score is as good as `score`, None if it never is."""
    return next((place for place, value in curve if fitness.reaches(value, score)), None)
