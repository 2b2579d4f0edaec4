"""Whether a stage that fails is asked again, paused, or given up: a circuit breaker as values.

Invariant: a stage is paused exactly from PAUSES_AFTER failures in a row on, until one try succeeds. While it is paused,
a failure of a try that began before the last one was counted tells nothing new, and makes no wait longer. Times are
seconds of a clock that nobody sets. Nothing here waits, sleeps or does I/O.
"""

from dataclasses import dataclass
from typing import Literal

PAUSES_AFTER = 3
"""Failures in a row from which on one try at a time is made."""
HELD_TRIES = 4
"""A lease is held so many times longer in a stage that is paused: its own program is then hardly to blame."""

Next = Literal["again", "abort", "give_up"]


@dataclass(frozen=True, slots=True)
class Breaker:
    """`failures` in a row, of which the last was counted at `last`; `paused_since` is when the stage was paused, None
    where it is not."""

    failures: int = 0
    last: float = float("-inf")
    paused_since: float | None = None

    @property
    def paused(self) -> bool:
        """Whether one try at a time is made."""
        return self.paused_since is not None

    @property
    def waits(self) -> int:
        """The number, from 1, of the wait before the next try of a stage that is paused."""
        return max(1, self.failures - PAUSES_AFTER + 1)

    def failed(self, began: float, now: float) -> "Breaker":
        """After a try that began at `began` has failed at `now`."""
        if self.paused and began < self.last:
            return self
        failures = self.failures + 1
        since = self.paused_since
        if since is None and failures >= PAUSES_AFTER:
            since = now
        return Breaker(failures, now, since)


HEALTHY = Breaker()


def after_failure(breaker: Breaker, tries: int, *, retries: int, now: float, patience_s: float) -> Next:
    """What a lease does whose try number `tries` (from 1) in this stage has failed. `retries` are the further tries of
    a lease in a stage that works for others."""
    if breaker.paused_since is not None:
        if now - breaker.paused_since > patience_s:
            return "give_up"
        return "abort" if tries >= HELD_TRIES * (retries + 1) else "again"
    return "abort" if tries >= retries + 1 else "again"
