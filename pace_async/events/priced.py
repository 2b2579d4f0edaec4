"""Whether the price of a model's calls is known.

Pure. The ledger counts a model without a price with 0 USD, which must not be shown as its cost. A price of 0 is known
where the settings say it.
"""

from collections.abc import Mapping
from typing import Any, cast, get_args

from pace_async.events.literals import Role

_ROOMS: Mapping[Role, tuple[str, ...]] = {
    "implementer": ("implementer",),
    "advisor": ("advisor",),
    "notes": ("implementer", "advisor"),
}
"""Where the settings give the price of the model of each role. That of notes is one of two."""


def is_unpriced(config: Mapping[str, Any], role: Role, tokens: int, usd: float) -> bool:
    """Whether calls that took tokens and cost nothing did so only because no price is known. `config` are the run's
    settings."""
    return tokens > 0 and usd == 0 and role in roles_without_price(config)


def roles_without_price(config: Mapping[str, Any]) -> frozenset[Role]:
    """The roles whose price the settings do not give. What costs something has a listed price all the same."""
    return frozenset(
        role for role in get_args(Role) if not any(_gives_price(config.get(room)) for room in _ROOMS[role])
    )


def _gives_price(room: object) -> bool:
    return isinstance(room, dict) and cast("dict[str, Any]", room).get("price_per_million_in") is not None
