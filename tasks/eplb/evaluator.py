"""Trusted scorer of expert placements: derives everything from the slot map, and reads no clock but the one outside.

A trace of how many tokens each expert of each layer served, window by window: synthetic (seeded, heavy-tailed, uneven
between layers and groups, drifting), or recorded, where the user has the file. A placement is made from one window and
scored on the next, which no instance shows. All that a candidate says is which expert sits in which slot; how many
replicas an expert has, and so what each of them carries, is counted here. Never shown to a candidate.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from expert_load import read_windows

EXPERTS, SLOTS, GROUPS, GPUS, NODES = 256, 288, 8, 32, 4
LAYERS = 58  # of the model that the speed constants were chosen for
TOKENS = 512  # served by an expert in one window, on average

SPREAD = (0.6, 1.5)  # of log popularity, from the evenest layer to the most uneven
GROUP, NEIGHBOUR = 0.6, 0.5  # how much of it experts of one group, and neighbours, share
DRIFT, KEPT = 0.2, 0.95  # what comes and goes slowly, and how much of it lasts from window to window
BURST = 0.25  # what concerns one window only


def instances(seed: int, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One instance for each window but the last: the loads to place from, and the sizes of the machine."""
    machine = {"slots": SLOTS, "groups": GROUPS, "gpus": GPUS, "nodes": NODES}
    return [{"load": window.tolist(), **machine} for window in _trace(seed, settings)[:-1]]


def practice(seed: int, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Windows of another trace, which score nothing. A recorded trace has no other."""
    return instances(seed, settings)


def score(
    instances: Sequence[Mapping[str, Any]],
    outputs: Sequence[object],
    seed: int,
    settings: Mapping[str, Any],
    seconds: Sequence[float],
    overhead: float,
) -> dict[str, float]:
    """{"score": mean of balancedness and speed}, and what it is made of. Raises ValueError for a map that is not
    allowed. `seconds` are those of each call, taken outside; a smaller trace is counted as if it had LAYERS layers.
    `groups_on_one_node` is the share of groups, over layers and windows, whose experts all sit on one node: 1 for a
    hierarchical placement, near 0 for a global one. It counts for nothing."""
    trace = _trace(seed, settings)
    if not len(outputs) == len(instances) == len(seconds) == len(trace) - 1:
        raise ValueError(f"{len(trace) - 1} maps were asked for and {len(outputs)} came")
    maps = [_slot_map(output, len(load)) for output, load in zip(outputs, trace[1:], strict=True)]
    constant = float(settings["speed_constant"])
    whole = [max(one, 1e-9) * LAYERS / len(trace[0]) for one in seconds]
    if _is_published(settings):
        balancedness = math.fsum(map(_balance_of_slots, maps, trace[1:])) / len(maps)
        speed = constant / (math.fsum(whole) / len(whole) + float(settings["simulation_s"]))
    else:
        carried = [_carried(slots, load) for slots, load in zip(maps, trace[1:], strict=True)]
        mean = sum(float(each.mean(axis=1).sum()) for each in carried)
        balancedness = mean / sum(float(each.max(axis=1).sum()) for each in carried)
        # Each window pays for its own time: of a median, a program that skips every other window would make a gain.
        speed = math.fsum(min(1.0, constant / one) for one in whole) / len(whole)
    return {
        "score": (balancedness + speed) / 2,
        "balancedness": balancedness,
        "speed": speed,
        "seconds": float(np.median(whole)),
        "speed_constant": constant,
        "groups_on_one_node": float(np.mean([_together(slots) for slots in maps])),
        "overhead": overhead,
    }


def _is_published(settings: Mapping[str, Any]) -> bool:
    """Whether balancedness and speed are those of the authors' evaluator."""
    if settings["scoring"] not in ("calls", "published"):
        raise ValueError(f"scoring must be calls or published, not {settings['scoring']!r}")
    return settings["scoring"] == "published"


def _balance_of_slots(slots: np.ndarray, load: np.ndarray) -> float:
    """Sum over layers of the mean load of a slot, over that of the greatest: one window as the authors count it, who
    look at slots and not at GPUs. 0 for a window without any load."""
    each = _shares(slots, load)
    return float(each.mean(axis=1).sum() / each.max(axis=1).sum()) if load.any() else 0.0


def _slot_map(output: object, layers: int) -> np.ndarray:
    """(layers, SLOTS) experts. Raises ValueError unless every slot of every layer holds one and every one is held."""
    if not isinstance(output, list) or len(output) != layers:
        raise ValueError(f"a map must be a list of {layers} layers")
    for number, layer in enumerate(output):
        if not isinstance(layer, list) or len(layer) != SLOTS:
            raise ValueError(f"layer {number} must be a list of {SLOTS} slots")
        if not all(type(expert) is int and 0 <= expert < EXPERTS for expert in layer):
            raise ValueError(f"layer {number} holds something that is no expert: whole numbers from 0 to {EXPERTS - 1}")
        if len(set(layer)) != EXPERTS:
            raise ValueError(f"layer {number} leaves {EXPERTS - len(set(layer))} experts without a slot")
    return np.array(output)


def _carried(slots: np.ndarray, load: np.ndarray) -> np.ndarray:
    """(layers, GPUS) tokens that each GPU serves."""
    return _shares(slots, load).reshape(len(load), GPUS, -1).sum(axis=2)


def _shares(slots: np.ndarray, load: np.ndarray) -> np.ndarray:
    """(layers, SLOTS) tokens that each slot serves: an expert's load is shared evenly among its replicas."""
    layer = np.arange(len(load))[:, None]
    replicas = np.zeros(load.shape)
    np.add.at(replicas, (layer, slots), 1.0)
    return (load / replicas)[layer, slots]


def _together(slots: np.ndarray) -> float:
    """The share of groups, over layers, that one node holds."""
    layers = len(slots)
    held = np.zeros((layers, GROUPS, NODES), dtype=bool)
    nodes = np.arange(SLOTS) * NODES // SLOTS
    held[np.arange(layers)[:, None], slots * GROUPS // EXPERTS, nodes] = True
    return float((held.sum(axis=2) == 1).mean())


def _trace(seed: int, settings: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """Windows (layers, EXPERTS); the recorded ones are the same for every seed."""
    if settings["data"] == "trace":
        return read_windows(Path(str(settings["path"])), int(settings["records"]), EXPERTS)
    if settings["data"] != "synthetic":
        raise ValueError(f"data must be synthetic or trace, not {settings['data']!r}")
    return _windows(seed, int(settings["layers"]), int(settings["windows"]) + 1)


@functools.lru_cache(maxsize=4)
def _windows(seed: int, layers: int, windows: int) -> tuple[np.ndarray, ...]:
    """`windows` arrays (layers, EXPERTS) of whole numbers of tokens."""
    rng = np.random.default_rng([seed, EXPERTS])
    shape = (layers, EXPERTS)
    uneven = rng.permutation(np.linspace(*SPREAD, layers))[:, None]
    own = rng.standard_normal(shape)
    popular = math.sqrt(1 - NEIGHBOUR**2) * own + NEIGHBOUR * np.roll(own, 1, axis=1)
    popular = uneven * popular + GROUP * np.repeat(rng.standard_normal((layers, GROUPS)), EXPERTS // GROUPS, axis=1)
    drift = rng.standard_normal(shape)
    found: list[np.ndarray] = []
    for _ in range(windows):
        weight = np.exp(popular + DRIFT * drift + BURST * rng.standard_normal(shape))
        found.append(rng.poisson(TOKENS * EXPERTS * weight / weight.sum(axis=1, keepdims=True)))
        drift = KEPT * drift + math.sqrt(1 - KEPT**2) * rng.standard_normal(shape)
    return tuple(found)
