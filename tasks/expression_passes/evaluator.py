"""Trusted scorer of orders of passes: runs them on hidden functions, proves each result equal, and counts costs.

A program names passes and has no part in what they do. The functions follow from the seed and are never shown. Whatever
the passes make of a function is evaluated beside it, at random inputs modulo a prime. Two different polynomials of the
degrees that occur here agree at such a point with a probability below 1e-15.
"""

import random
from collections.abc import Sequence
from functools import lru_cache

from expression_functions import INPUTS, KINDS, MODULES, drawn
from expression_graphs import PRIME, Graph, cost, values
from optimiser_passes import PASSES

STEPS = 3
FUNCTIONS = [f"{module}_{kind}" for module in MODULES for kind in KINDS]


def instances(seed: int) -> list[dict[str, object]]:
    """One instance, the same for every seed: the names. The functions follow from the seed and are never shown."""
    return [{"functions": FUNCTIONS, "passes": list(PASSES), "steps": STEPS}]


def score(instances: Sequence[object], outputs: Sequence[object], seed: int) -> dict[str, float]:
    """{"score": cost that is saved, in percent of that of the function as written, mean over all functions}. Raises
    ValueError for what is no list of passes for each function."""
    if len(outputs) != 1 or len(instances) != 1:
        raise ValueError(f"one table of passes was asked for and {len(outputs)} came")
    table = outputs[0]
    if not isinstance(table, dict) or set(table) != set(FUNCTIONS):
        raise ValueError(f"the output must name {len(FUNCTIONS)} functions, each once, and nothing else")
    orders = {name: _order(name, table[name]) for name in FUNCTIONS}
    saved = [_saved(seed, name, order) for name, order in orders.items()]
    return {"score": sum(saved) / len(saved), "worst": min(saved)}


def _order(name: str, passes: object) -> tuple[str, ...]:
    if not isinstance(passes, list) or len(passes) != STEPS:
        raise ValueError(f"the passes of {name} must be a list of {STEPS} names")
    for one in passes:
        if type(one) is not str or one not in PASSES:
            raise ValueError(f"the passes of {name} must be among {', '.join(PASSES)}")
    return tuple(passes)


@lru_cache(maxsize=4)
def _functions(seed: int) -> dict[str, Graph]:
    return {f"{module}_{kind}": graph for (module, kind), graph in drawn(seed).items()}


@lru_cache(maxsize=2_000)
def _after(seed: int, name: str, order: tuple[str, ...]) -> Graph:
    """What these passes leave of a function."""
    return PASSES[order[-1]](_after(seed, name, order[:-1])) if order else _functions(seed)[name]


@lru_cache(maxsize=2_000)
def _written(seed: int, name: str) -> tuple[int, list[int], list[int]]:
    """The cost of a function as written, random inputs, and what it computes of them."""
    written, draw = _functions(seed)[name], random.Random(f"{seed} {name}")
    inputs = [draw.randrange(PRIME) for _ in range(INPUTS)]
    return cost(written), inputs, values(written, inputs)


@lru_cache(maxsize=100_000)
def _saved(seed: int, name: str, order: tuple[str, ...]) -> float:
    """Percent of the cost of a function as written that this order of passes saves."""
    before, inputs, expected = _written(seed, name)
    left = PASSES[order[-1]](_after(seed, name, order[:-1]))
    # A wrong pass could lower the cost, so what an order of passes leaves is checked each time.
    if values(left, inputs) != expected:
        raise RuntimeError(f"{' '.join(order)} changed what {name} computes")
    return 100.0 * (before - cost(left)) / before
