"""A database that cannot be written for a while, as those who wait for it are told."""

from collections.abc import Callable
from dataclasses import dataclass

from pace_async.events import FaultSeen

PATIENCE_S = 60.0
"""How long a database may be out of reach where nobody says otherwise."""


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
        """For the record."""
        detail = f"{self.reason}, for {self.seconds:.0f} s; nothing was lost"
        return FaultSeen("population", "database_back", detail, None, at)


Tell = Callable[[Outage | Recovered], None]
Say = Callable[[Outage | FaultSeen], None]
"""What a run is told: that an outage has begun, and the fact, committed, that it is over."""


def nobody(_: Outage | Recovered | FaultSeen) -> None:
    """Tells nobody."""
