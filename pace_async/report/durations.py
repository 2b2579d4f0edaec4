"""The unit in which a length of time is read: seconds, minutes, hours or days. Pure."""

from typing import NamedTuple


class Unit(NamedTuple):
    """A unit of time, in the plural, and its length in seconds."""

    name: str
    seconds: float

    def of_hours(self) -> float:
        """How many of them an hour has."""
        return 3600.0 / self.seconds


HOURS = Unit("hours", 3600.0)
_UNITS = (Unit("days", 86400.0), HOURS, Unit("minutes", 60.0))


def unit_of(seconds: float, longest: Unit = _UNITS[0]) -> Unit:
    """The largest unit, up to `longest`, of which the time has two or more."""
    units = _UNITS[_UNITS.index(longest) :]
    return next((unit for unit in units if seconds >= 2 * unit.seconds), Unit("seconds", 1.0))


def hours_in_words(hours: float) -> str:
    """`45 seconds`, `12.5 minutes` or `3.2 hours`, with three digits."""
    unit = unit_of(3600 * hours, HOURS)
    return f"{hours * unit.of_hours():.3g} {unit.name}"
