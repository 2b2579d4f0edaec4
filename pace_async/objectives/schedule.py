"""alpha, the weight of the frontier branch: the transition from exploration to refinement.

Each schedule is a function of the recorded groups only, so a resumed run goes on with the same alpha:

    linear        the paper's: from 0 to 1 over the horizon, in groups
    code          the authors' code: from `start` to 0.8 over the horizon, and the mixture is standardised once more
    fixed         `start` throughout: a control without a transition
    reversed      from 1 to 0 over the horizon: a control whose transition goes the other way
    compression   the paper's reason instead of its clock: refinement begins as reward gaps compress. With s the spread
                  of a group's rewards, alpha = clip(1 - recent s / early s, 0, 1)

The spread of a group is the population sigma of its rewards without failures. A failure is always -1, so one of them
would hide that the others have come closer together. A group with fewer than two other rewards is not measured. Early
and recent are the medians of the first and of the last WINDOW measured groups. So alpha is 0 until there are more than
WINDOW, and it does not depend on the scale or offset of rewards. If recent groups are early ones compressed by delta,
alpha is 1 - delta. It falls again if the spread grows. If the early groups had no spread, alpha stays 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

import numpy as np

from pace_async.objectives.base import EPS_SKIP
from pace_async.registry.objectives import ALPHA_SCHEDULES
from pace_async.reward import FAILURE

CODE_END = 0.8
WINDOW = 8


@dataclass(frozen=True, slots=True)
class Spreads:
    """The spreads of the first and of the last WINDOW measured groups: all data that `compression` needs."""

    early: tuple[float, ...] = ()
    recent: tuple[float, ...] = ()

    def after(self, rewards: Sequence[float]) -> "Spreads":
        """The spreads after one more group."""
        spread = spread_of(rewards)
        if spread is None:
            return self
        early = self.early if len(self.early) == WINDOW else (*self.early, spread)
        return Spreads(early, (*self.recent, spread)[-WINDOW:])

    @property
    def compression(self) -> float:
        """0 if recent groups spread as much as the early ones, 1 if they have no spread."""
        if not self.early or median(self.early) < EPS_SKIP:
            return 0.0
        return min(1.0, max(0.0, 1.0 - median(self.recent) / median(self.early)))


NO_SPREADS = Spreads()


class ScheduleFunction(Protocol):
    """Type of the code of an entry in `registry.objectives.ALPHA_SCHEDULES`."""

    def __call__(self, passed: float, start: float, spreads: Spreads, /) -> float:
        """alpha in [0, 1] after this share of the horizon."""
        ...


def spread_of(rewards: Sequence[float]) -> float | None:
    """Population sigma of the rewards that are not failures, None for fewer than two."""
    scored = [reward for reward in rewards if reward > FAILURE]
    return float(np.std(scored)) if len(scored) > 1 else None


def linear(passed: float, start: float, spreads: Spreads) -> float:
    """From 0 to 1."""
    return passed


def code(passed: float, start: float, spreads: Spreads) -> float:
    """From `start` to CODE_END."""
    return start + (CODE_END - start) * passed


def fixed(passed: float, start: float, spreads: Spreads) -> float:
    """`start` throughout."""
    return start


def backwards(passed: float, start: float, spreads: Spreads) -> float:
    """From 1 to 0."""
    return 1.0 - passed


def compression(passed: float, start: float, spreads: Spreads) -> float:
    """The compression of the rewards' spread."""
    return spreads.compression


def alpha_at(schedule: str, groups: int, horizon: int, *, start: float = 0.0, spreads: Spreads) -> float:
    """alpha in [0, 1] after `groups` groups (skipped ones count). `start` is where `code` begins and what `fixed` is.
    Raises ValueError for an unknown schedule."""
    function = ALPHA_SCHEDULES.named(schedule).load()
    return function(min(1.0, groups / horizon), start, spreads)
