"""Which implementer makes which candidate: a weighted draw that anyone can repeat. Pure.

`a` is one model, `a,b` two with equal weight, `a=3,b=1` two by weight. The draw depends on the run's seed and the lease
alone, so a run that is resumed gives each lease to the same model, as long as the models are the same.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass

from pace_async.errors import UsageError
from pace_async.search.draws import generator

CATALOG = "catalog"


@dataclass(frozen=True, slots=True)
class Share:
    """A model and its weight, > 0."""

    model: str
    weight: float


def parse_shares(text: str) -> tuple[Share, ...]:
    """Raises UsageError in one sentence."""
    shares: list[Share] = []
    for part in text.split(","):
        model, equals, weight = part.strip().partition("=")
        if not model.strip():
            raise UsageError(f"--implementer {text!r} names no model before or after a comma: write a,b or a=3,b=1.")
        shares.append(Share(model.strip(), _weight(weight.strip(), part.strip()) if equals else 1.0))
    names = [share.model for share in shares]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--implementer names {name!r} twice: give it one weight, as in {name}=2.")
    return tuple(shares)


def models_of(text: str) -> list[str]:
    """The models of a setting that are asked over the network. Raises UsageError."""
    return [share.model for share in parse_shares(text) if share.model != CATALOG]


def _weight(text: str, part: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        raise UsageError(f"--implementer {part!r}: the weight after = must be a number above 0.")
    return weight


def draw(shares: tuple[Share, ...], seed: int, lease: int, down: Collection[str] = ()) -> Share | None:
    """The share that makes `lease`; where its model is among `down`, one drawn among the others; None if all are."""
    left = list(shares)
    generate = generator(seed, lease, "implementer")
    while left:
        chosen = generate.choices(left, [share.weight for share in left])[0]
        if chosen.model not in down:
            return chosen
        left.remove(chosen)
    return None
