"""Reads the setting of the implementers. Pure.

`a` is one model, `a,b` are two with equal weight, `a=3,b=1` two by weight.
"""

import math
from difflib import get_close_matches

from pace_async.errors import UsageError
from pace_async.providers.base import Share
from pace_async.registry.implementers import IMPLEMENTERS, implementer_of

NEARLY = 0.8
"""Share of equal letters above which a name is taken for a misspelt one."""


def parse_shares(text: str) -> tuple[Share, ...]:
    """Parse the setting. Raises UsageError in one sentence."""
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
        if meant := _misspelt(name):
            raise UsageError(f"--implementer {name} is no model of a provider: did you mean {meant}?")
    return tuple(shares)


def models_of(text: str) -> list[str]:
    """The models of a setting that are called over the network. Raises UsageError."""
    return [share.model for share in parse_shares(text) if implementer_of(share.model).asks_a_model]


def _misspelt(name: str) -> str:
    """The built-in implementer that a name without a provider is nearly, else "". `command-r` is a model."""
    if "/" in name or name.startswith(tuple(IMPLEMENTERS)):
        return ""
    return next(iter(get_close_matches(name, IMPLEMENTERS, n=1, cutoff=NEARLY)), "")


def _weight(text: str, part: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        raise UsageError(f"--implementer {part!r}: the weight after = must be a number above 0.")
    return weight
