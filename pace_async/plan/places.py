"""Lays the parts of a run on cards, host memory and disk, and says what does not fit. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pace_async.plan.needs import GIB, Owner, Part, RunNeeds

Owned = Mapping[Owner, Sequence[str]]
"""Each owner's cards. None of them: it computes on the processor."""


@dataclass(frozen=True, slots=True)
class Place:
    """A card, host memory, memory that processes share, or a disk. `total` and `used` are in bytes, `used` by others.
    `total` None: not known. `more`: how to get more of it, a clause in brackets, empty if no setting here helps."""

    name: str
    total: float | None
    used: float
    parts: tuple[Part, ...]
    more: str = ""

    @property
    def needed(self) -> float:
        return sum(part.size for part in self.parts)

    @property
    def fits(self) -> bool | None:
        """None if it is not known."""
        return None if self.total is None else self.needed + self.used <= self.total


@dataclass(frozen=True, slots=True)
class CardMemory:
    """A card as the driver describes it. Sizes are in bytes. `used` is what other processes have."""

    name: str
    total: float
    used: float = 0.0


@dataclass(frozen=True, slots=True)
class Capacity:
    """What is available. `host`, `disk` and `shared` (/dev/shm) are bytes that are free, None if that is not known.
    `cards` by name. `disk_in_memory`: files of the run take host memory too."""

    cards: Mapping[str, CardMemory]
    host: float | None = None
    disk: float | None = None
    shared: float | None = None
    disk_in_memory: bool = False


def places_of(needs: RunNeeds, owned: Owned, capacity: Capacity) -> tuple[Place, ...]:
    """Every place that the run uses. Each of an owner's cards has its parts."""
    places: list[Place] = []
    for name, card in capacity.cards.items():
        parts = tuple(part for part in needs.device if name in owned.get(part.owner, ()))
        if parts:
            places.append(Place(f"card {name}", card.total, card.used, parts))
    on_cards = {owner for owner, names in owned.items() if any(name in capacity.cards for name in names)}
    in_host = tuple(part for part in needs.device if part.owner not in on_cards)
    files = needs.disk if capacity.disk_in_memory else ()
    places.append(Place("host memory", capacity.host, 0.0, (*in_host, *needs.host, *files)))
    places.append(Place("disk", capacity.disk, 0.0, needs.disk))
    if capacity.shared is not None:
        more = " (in a container, --shm-size=1g gives more)"
        places.append(Place("/dev/shm", capacity.shared, 0.0, needs.shared, more))
    return tuple(place for place in places if place.parts)


def faults(places: Sequence[Place], needs: RunNeeds) -> list[str]:
    """What does not fit, a clause for each, empty if all that is known fits."""
    clauses = [_fault(place) for place in places if place.fits is False]
    if needs.cache_one > needs.cache:
        clauses.append(
            f"one request of the longest call needs {in_gib(needs.cache_one)} GiB of keys and values, and vLLM would "
            f"have {in_gib(needs.cache)}"
        )
    return clauses


def _fault(place: Place) -> str:
    assert place.total is not None
    others = f", of which others use {in_gib(place.used)}" if place.used >= 0.05 * GIB else ""
    if place.needed < GIB:
        has, needs = (f"{size / 2**20:,.0f}" for size in (place.total, place.needed))
        return f"{place.name} has {has} MiB{others}, and the run needs {needs}{place.more}"
    return f"{place.name} has {in_gib(place.total)} GiB{others}, and the run needs {in_gib(place.needed)}{place.more}"


def in_gib(size: float) -> str:
    return f"{size / GIB:,.1f}"
