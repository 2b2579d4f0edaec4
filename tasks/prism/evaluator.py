"""Trusted scorer of model placements: takes only the GPU of each model, and computes the pressure itself, exactly.

The pressure on the key-value cache of a GPU is the demand of its models (rate / latency target, summed) over the memory
that their weights leave. All numbers are whole, and fractions are compared. Never shown to a candidate.
"""

import random
from collections.abc import Sequence
from fractions import Fraction

MEMORY = 80
CASES = 40


def instances(seed: int) -> list[dict[str, object]]:
    """One instance for each case: GPUs, their memory in GB, and models, each [size in GB, rate, latency target]."""
    return [{"gpus": gpus, "memory": MEMORY, "models": models} for gpus, models in cases(seed)]


def practice(seed: int) -> list[dict[str, object]]:
    """Other cases, which score nothing."""
    return instances(seed)


def score(instances: Sequence[object], outputs: Sequence[object], seed: int) -> dict[str, float]:
    """{"score": 1 / mean over the cases of the greatest pressure of a GPU}. Raises ValueError for what is no
    placement."""
    drawn = cases(seed)
    if not len(outputs) == len(instances) == len(drawn):
        raise ValueError(f"{len(drawn)} placements were asked for and {len(outputs)} came")
    return so_far(instances, outputs, seed)


def so_far(instances: Sequence[object], outputs: Sequence[object], seed: int) -> dict[str, float]:
    """The score over the first cases, as many as there are outputs."""
    found = [
        greatest_pressure(gpus, models, output)
        for (gpus, models), output in zip(cases(seed)[: len(outputs)], outputs, strict=True)
    ]
    return {"score": float(len(found) / sum(found))}


def cases(seed: int) -> list[tuple[int, list[list[int]]]]:
    """(GPUs, models): two models for each GPU."""
    draw = random.Random(seed)
    drawn: list[tuple[int, list[list[int]]]] = []
    for _ in range(CASES):
        gpus = draw.randint(5, 9)
        models = [[draw.randint(10, 29), draw.randint(1, 9), draw.randint(5, 9)] for _ in range(2 * gpus)]
        drawn.append((gpus, models))
    return drawn


def greatest_pressure(gpus: int, models: Sequence[Sequence[int]], placement: object) -> Fraction:
    """The greatest of the pressures of all GPUs. Raises ValueError."""
    if not isinstance(placement, (list, tuple)) or len(placement) != len(models):
        raise ValueError(f"a placement must be a list of {len(models)} GPUs, one for each model")
    room, demand = [MEMORY] * gpus, [Fraction(0)] * gpus
    for number, (gpu, (size, rate, target)) in enumerate(zip(placement, models, strict=True)):
        if type(gpu) is not int or not 0 <= gpu < gpus:
            raise ValueError(f"the GPU of model {number} must be a whole number from 0 to {gpus - 1}")
        room[gpu] -= size
        demand[gpu] += Fraction(rate, target)
    if min(room) <= 0:
        raise ValueError(f"GPU {room.index(min(room))} has no memory left beside the weights of its models")
    return max(asked / left for asked, left in zip(demand, room, strict=True))
