"""The shape of a simulated run: its values, what is refused, and the machines that it asks for."""

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict, cast

from pace_async.errors import UsageError
from pace_async.registry.staleness_policies import STALENESS_POLICIES

if TYPE_CHECKING:
    from pace_async.simulate.nodes import NodesShape

_LEAST = {
    "threads": 1,
    "group_size": 2,
    "max_staleness": 0,
    "candidates": 1,
    "seed": 0,
    "slots": 1,
    "nodes": 1,
    "slots_per_node": 1,
    "prune_warmup": 0,
    "prune_least": 1,
    "prune_factor": 2,
    "curve_steps": 2,
    "repeats": 0,
}
_SECONDS = ("eval_mean", "eval_cv", "eval_cap", "generation", "implement_mean", "learn", "pause")
_NUMBERS = (*_SECONDS, "prune_margin", "curve_noise")
PRUNES = "median", "asha"
BESTS = "bests"
REPEATED = BESTS, "parents"
REPAIR_S = 600.0
_TIME = re.compile(r"(\d+(?:\.\d*)?)(s|m|h|d)")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Shape(TypedDict, total=False):
    """The shape of a run: the flags of `pace simulate`. What is left out or None has the flag's default. Times are
    seconds, and those of nodes may also be text such as "6h"."""

    threads: int | None
    group_size: int | None
    max_staleness: int | None
    eval_mean: float | None
    eval_cv: float | None
    eval_cap: float | None
    generation: float | None
    implement_mean: float | None
    learn: float | None
    pause: float | None
    candidates: int | None
    policy: str | None
    seed: int | None
    slots: int | None
    nodes: int | None
    slots_per_node: int | None
    node_mtbf: str | float | None
    node_repair: str | float | None
    preempt: float | None
    prune: str | None
    prune_warmup: int | None
    prune_least: int | None
    prune_margin: float | None
    prune_factor: int | None
    curve_steps: int | None
    curve_noise: float | None
    repeats: int | None
    repeats_for: str | None


def refuse_unless_valid(shape: Shape, called: Callable[[str], str]) -> None:
    """Raises UsageError for a key that no shape has, and for a value out of its range."""
    unknown = next((name for name in shape if name not in Shape.__annotations__), None)
    if unknown is not None:
        raise UsageError(f"There is no {unknown!r}: a simulation takes {', '.join(Shape.__annotations__)}.")
    values = {name: value for name, value in shape.items() if value is not None}
    for name, value in values.items():
        if name in _LEAST and not (isinstance(value, int) and value >= _LEAST[name]):
            raise UsageError(f"{called(name)} must be a whole number of at least {_LEAST[name]}, not {value}.")
        if name in _NUMBERS and not (math.isfinite(cast("float", value)) and cast("float", value) >= 0):
            raise UsageError(f"{called(name)} must be a number of at least 0, not {value}.")
    if values.get("eval_mean") == 0 or values.get("eval_cap") == 0:
        raise UsageError(
            f"{called('eval_mean')} and {called('eval_cap')} must be above 0: the prediction is relative to the "
            "evaluations."
        )
    if (prune := shape.get("prune")) is not None and prune not in PRUNES:
        raise UsageError(f"{called('prune')} must be {' or '.join(PRUNES)}, not {prune!r}.")
    if (repeated := shape.get("repeats_for")) is not None and repeated not in REPEATED:
        raise UsageError(f"{called('repeats_for')} must be {' or '.join(REPEATED)}, not {repeated!r}.")
    of_rule = next((name for name in values if name.startswith(("prune_", "curve_"))), None)
    if of_rule is not None and prune is None:
        raise UsageError(f"{called(of_rule)} goes with {called('prune')}.")
    if (policy := shape.get("policy")) is not None and policy not in STALENESS_POLICIES:
        raise UsageError(STALENESS_POLICIES.unknown(policy))


def nodes_of(shape: Shape, threads: int, called: Callable[[str], str]) -> "NodesShape | None":
    """The nodes, None without any. `called` gives the name of a key in errors. Raises UsageError."""
    nodes, each = shape.get("nodes"), shape.get("slots_per_node")
    if nodes is None:
        of_nodes = {name: shape.get(name) for name in ("slots_per_node", "node_mtbf", "node_repair", "preempt")}
        without = next((name for name, value in of_nodes.items() if value is not None), None)
        if without is not None:
            raise UsageError(
                f"{called(without)} is for simulated machines: give their number too, as in {called('nodes')} 8."
            )
        return None
    if shape.get("slots") is not None:
        raise UsageError(
            f"{called('nodes')} and {called('slots')} exclude each other: {called('slots_per_node')} says how many a "
            "node has."
        )
    each = -(-threads // nodes) if each is None else each
    if nodes * each < threads:
        raise UsageError(
            f"{called('nodes')} {nodes} with {called('slots_per_node')} {each} are {nodes * each} slots for "
            f"{called('threads')} {threads}: give at least as many slots as threads."
        )
    preempt = shape.get("preempt") or 0.0
    if not 0 <= preempt < 1:
        raise UsageError(f"{called('preempt')} must be a probability from 0 to below 1, not {preempt:g}.")
    mtbf, repair = shape.get("node_mtbf"), shape.get("node_repair")
    from pace_async.simulate.nodes import NodesShape

    return NodesShape(
        count=nodes,
        slots_each=each,
        mtbf_s=None if mtbf is None else _seconds(called("node_mtbf"), mtbf),
        repair_s=REPAIR_S if repair is None else _seconds(called("node_repair"), repair),
        preempt=preempt,
    )


def _seconds(name: str, given: str | float) -> float:
    """The seconds of a time as in 45s, 90m, 6h or 2d, or of a number of seconds. Raises UsageError."""
    if isinstance(given, str):
        match = _TIME.fullmatch(given.strip())
        seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    else:
        seconds = float(given)
    if not 1 <= seconds < float("inf"):
        raise UsageError(f"{name} must be a time of at least one second, as in 45s, 90m, 6h or 2d, not '{given}'.")
    return seconds
