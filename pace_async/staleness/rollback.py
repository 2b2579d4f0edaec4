"""Decides when the advisor goes back to an earlier version, to which one, and which rollouts are void.

`Health` is a fold over the groups, in order: for each version the number of rollouts, and the number of those with
answers that could not be parsed. It is the same for an uninterrupted run and for a resumed one.

- `good` is the version to go back to. Its record is that of all rollouts up to it. It begins as version 0.
- The next version made is on `trial`. Once TRIAL rollouts of it and of later ones are known and parse no worse than the
  record of `good`, it becomes `good`, and the next one made is on trial.
- The advisor has collapsed if the rollouts of versions after `good` in the last WINDOW groups have clearly more
unparsed
  answers than the record of `good`: by GAP at least, and by Fisher's exact test, one-sided, at LEVEL.
- Going back makes the next version of `good`. Rollouts of the versions between the two are void, because they come from
  weights far from those they would train. The new version is `good`.

Invariants: `good` never falls and is never void. Void versions lie between two that are not. The first return keeps the
learning rate. Each further one multiplies it by SLOWER.
Pure: weights and rows are unknown here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, lgamma

WINDOW = 3
TRIAL = 16
GAP = 0.2
LEVEL = 3e-4
DOUBT = 0.2
SLOWER = 0.25


@dataclass(frozen=True, slots=True)
class Count:
    """Rollouts, and those of them whose answers could not be parsed."""

    rollouts: int = 0
    unparsed: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.rollouts + other.rollouts, self.unparsed + other.unparsed)

    @property
    def share(self) -> float:
        """Share of unparsed rollouts, 0 without rollouts."""
        return self.unparsed / self.rollouts if self.rollouts else 0.0


NOTHING = Count()


@dataclass(frozen=True, slots=True)
class Health:
    """The record of the groups so far. `trial` None: the next version made will be on trial. `void` are ranges of
    versions, first and last."""

    good: int = 0
    record: Count = NOTHING
    trial: int | None = None
    of_trial: Count = NOTHING
    recent: tuple[Count, ...] = ()
    void: tuple[tuple[int, int], ...] = ()
    rollbacks: int = 0

    def after(self, update: int, rollouts: Mapping[int, Count]) -> "Health":
        """The health after one more group, which trains version `update`. `rollouts` by the oldest version of their
        tokens."""
        valid = {version: count for version, count in rollouts.items() if not self.is_void(version)}
        later = sum((count for version, count in valid.items() if version > self.good), NOTHING)
        trial = update + 1 if self.trial is None else self.trial
        health = replace(
            self,
            record=self.record + sum((count for version, count in valid.items() if version <= self.good), NOTHING),
            trial=trial,
            of_trial=self.of_trial + sum((count for version, count in valid.items() if version >= trial), NOTHING),
            recent=(*self.recent, later)[-WINDOW:] if later.rollouts else self.recent,
        )
        return health._promoted(update) if health._passed else health

    def back(self, update: int) -> "Health":
        """With version `update` + 1 made out of `good`."""
        void = (*self.void, (self.good + 1, update)) if update > self.good else self.void
        return replace(Health(good=update + 1, record=self.record), void=void, rollbacks=self.rollbacks + 1)

    def is_void(self, version: int) -> bool:
        """Whether rollouts whose oldest token is of this version train nothing."""
        return any(first <= version <= last for first, last in self.void)

    @property
    def lately(self) -> Count:
        """The rollouts of versions after `good` in the last groups that had any."""
        return sum(self.recent, NOTHING)

    @property
    def collapsed(self) -> bool:
        """Whether the advisor is to go back to `good`."""
        worse = self.lately.share - self.record.share >= GAP
        return worse and self.record.rollouts > 0 and chance(self.lately, self.record) < LEVEL

    @property
    def rate(self) -> float:
        """Factor on the learning rate from now on."""
        return SLOWER ** max(0, self.rollbacks - 1)

    @property
    def needed(self) -> tuple[int, ...]:
        """The versions whose weights and optimizer state must be kept, now or once they are made, without version 0."""
        return tuple(version for version in (self.good, self.trial) if version)

    @property
    def _passed(self) -> bool:
        sample = self.of_trial
        return sample.rollouts >= TRIAL and (sample.share <= self.record.share or chance(sample, self.record) >= DOUBT)

    def _promoted(self, update: int) -> "Health":
        assert self.trial is not None
        return replace(self, good=self.trial, record=self.record + self.of_trial, trial=update + 1, of_trial=NOTHING)


NO_GROUPS = Health()


def chance(sample: Count, other: Count) -> float:
    """Fisher's exact test, one-sided: the probability that, of the unparsed rollouts of both, at least
    `sample.unparsed` fall among those of `sample`, if parsing does not depend on the version. 1 where either has no
    rollout."""
    if not sample.rollouts or not other.rollouts:
        return 1.0
    both = sample + other
    if sample.unparsed * both.rollouts < both.unparsed * sample.rollouts:  # below the mean the other tail is smaller
        return 1.0 - _tail(Count(other.rollouts, other.unparsed + 1), Count(sample.rollouts, sample.unparsed - 1))
    return _tail(sample, other)


def _tail(sample: Count, other: Count) -> float:
    """The same if `sample` has at least as many as is likely: from there on each term is smaller than the one before,
    and is computed from it."""
    both = sample + other
    parsed = both.rollouts - both.unparsed
    if not 0 <= sample.unparsed <= min(sample.rollouts, both.unparsed):
        return 0.0
    whole, missed = _log_choose(both.rollouts, sample.rollouts), sample.rollouts - sample.unparsed
    term = exp(_log_choose(both.unparsed, sample.unparsed) + _log_choose(parsed, missed) - whole)
    total, hits = 0.0, sample.unparsed
    while total + term > total:
        total += term
        term *= (both.unparsed - hits) * (sample.rollouts - hits)
        term /= (hits + 1) * (parsed - sample.rollouts + hits + 1)
        hits += 1
    return min(1.0, total)


def _log_choose(of: int, some: int) -> float:
    return lgamma(of + 1) - lgamma(some + 1) - lgamma(of - some + 1)
