"""Notices of a database that cannot be written for a while."""

from collections.abc import Callable
from dataclasses import dataclass

from pace_async.events import FaultSeen

PATIENCE_S = 60.0
"""Default time for which a database may be unreachable."""


@dataclass(frozen=True, slots=True)
class Outage:
    """Since `since` (seconds since the epoch) nothing can be written, because of `reason`: a few words, no secrets."""

    reason: str
    since: float


@dataclass(frozen=True, slots=True)
class Recovered:
    """An outage is over after `seconds`."""

    reason: str
    seconds: float

    def fact(self, at: float) -> FaultSeen:
        """The fact to commit."""
        detail = f"{self.reason}, for {self.seconds:.0f} s; nothing was lost"
        return FaultSeen("population", "database_back", detail, None, at)


Tell = Callable[[Outage | Recovered], None]
Say = Callable[[Outage | FaultSeen], None]
"""A run's notices: the begin of an outage, and the committed fact that it is over."""


def ignore_news(_: Outage | Recovered | FaultSeen) -> None:
    """Ignore the notice."""
