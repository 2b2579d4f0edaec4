"""Whether the price of a model's calls is known.

Pure. The ledger counts a model without a price with 0 USD, which must not be shown as its cost. A price of 0 is known
where the settings say it.
"""

from collections.abc import Mapping
from typing import Any, cast

_ROOMS: Mapping[str, tuple[str, ...]] = {
    "implementer": ("implementer",),
    "advisor": ("advisor",),
    "notes": ("implementer", "advisor"),
}
"""Where the settings give the price of the model of each role. That of notes is one of two."""
UNKNOWN = "USD unknown"


def is_unpriced(config: Mapping[str, Any], role: str, tokens: int, usd: float) -> bool:
    """Whether calls that took tokens and cost nothing did so only because no price is known. `config` are the run's
    settings."""
    return tokens > 0 and usd == 0 and not any(_gives_price(config.get(room)) for room in _ROOMS[role])


def _gives_price(room: object) -> bool:
    return isinstance(room, dict) and cast("dict[str, Any]", room).get("price_per_million_in") is not None
