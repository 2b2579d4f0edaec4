"""Money as text, where the price of a model may not be known.

Pure. Invariant: what calls without a known price cost is never shown as 0. Of a sum the known part is shown beside
"unknown". `unpriced` are the roles with such calls, None in place of a sum stands for one with such a part.
"""

from collections.abc import Collection, Mapping

from pace_async.events import Role
from pace_async.observe.formatting import count, usd

UNKNOWN = "USD unknown"
OTHERS: tuple[Role, ...] = ("advisor", "notes")
"""Who may ask a model over the network besides the implementer."""


def spent_usd(known: float, unpriced: Collection[str]) -> str:
    """`$0.25`, `USD unknown`, or `$0.25 and USD unknown`."""
    return _cost_text(known, usd(known), UNKNOWN, bool(unpriced))


def in_usd(known: float, *, unpriced: bool = False, digits: int = 4) -> str:
    """`0.2500 USD`, `USD unknown`, or `0.2500 USD and USD unknown`."""
    return _cost_text(known, f"{known:.{digits}f} USD", UNKNOWN, unpriced)


def cell_usd(known: float, *, unpriced: bool = False, digits: int = 4) -> str:
    """`0.2500`, `unknown`, or `0.2500 and unknown`: the cell of a column that is headed by USD."""
    return _cost_text(known, f"{known:,.{digits}f}", "unknown", unpriced)


def cost_of(usd_or_none: float | None) -> str:
    """The cost of a single call or candidate, None if it is not known."""
    return UNKNOWN if usd_or_none is None else f"{usd_or_none:.4f} USD"


def calls(counts: Mapping[str, int], spent: Mapping[str, float], unpriced: Collection[str] = ()) -> str:
    """The calls of each role. If others than the implementer were asked over the network, the cost of each too."""
    others = [role for role in OTHERS if counts.get(role)]
    if not others:
        return count(counts.get("implementer", 0), "implementer call")
    parts = [
        f"{count(counts.get(role, 0), f'{role} call')} ({spent_usd(spent.get(role, 0.0), {role} & set(unpriced))})"
        for role in (*others, "implementer")
    ]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def parts_of_spend(spent: Mapping[str, float | None]) -> str:
    """What each role cost, in parentheses, or nothing if only the implementer cost something."""
    others = [role for role in OTHERS if spent.get(role, 0.0) != 0.0]
    costs = [(role, spent.get(role, 0.0)) for role in (*others, "implementer")]
    parts = [f"{role} {UNKNOWN if cost is None else usd(cost)}" for role, cost in costs]
    return f" ({', '.join(parts)})" if others else ""


def _cost_text(known: float, text: str, unknown: str, unpriced: bool) -> str:
    if not unpriced:
        return text
    return f"{text} and {unknown}" if known else unknown
