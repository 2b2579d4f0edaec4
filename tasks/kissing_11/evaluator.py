"""Trusted scorer of kissing configurations: whole numbers only, so nothing is rounded.

Let no two vectors be nearer to each other than the longest vector is to the origin. Then unit spheres around the
vectors, each scaled to the length 2, touch a unit sphere at the origin and do not overlap. Never shown to a candidate.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

DIMENSIONS = 11
DRAW = 0
MOST = 868  # spheres, by a proof: a longer list cannot be allowed
LARGEST = 10**15  # of a coordinate, either way


def instances(seed: int) -> list[dict[str, int]]:
    """One instance, the same for every seed: the dimensions of space, and a number from which a program may draw, which
    says nothing of the seed."""
    return [{"dimensions": DIMENSIONS, "seed": DRAW}]


def score(instances: Sequence[dict[str, int]], outputs: Sequence[object]) -> dict[str, float]:
    """{"score": mean over instances of the number of vectors}. Raises ValueError for vectors that are not allowed."""
    if len(outputs) != len(instances):
        raise ValueError(f"{len(instances)} sets of vectors were asked for and {len(outputs)} came")
    counts = [_count(instance["dimensions"], output) for instance, output in zip(instances, outputs, strict=True)]
    return {"score": math.fsum(counts) / len(counts)}


def _count(dimensions: int, output: object) -> int:
    if type(output) is not list or not 0 < len(output) <= MOST:
        raise ValueError(f"the output must be a list of 1 to {MOST} vectors")
    vectors = [_vector(i, dimensions, item) for i, item in enumerate(output)]
    largest = max(abs(value) for vector in vectors for value in vector)
    exact: Any = np.int64 if 4 * dimensions * largest**2 < 2**63 else object
    table = np.array(vectors, dtype=exact)
    products = table @ table.T
    norms = products.diagonal()
    if norms.min() == 0:
        raise ValueError("a vector is zero")
    square = norms[:, None] + norms - 2 * products
    near = np.argwhere(np.triu(square < norms.max(), 1))
    if len(near):
        i, j = near[0]
        raise ValueError(f"vectors {i} and {j} are nearer to each other than the longest vector is to the origin")
    return len(vectors)


def _vector(i: int, dimensions: int, item: object) -> list[int]:
    if type(item) is not list or len(item) != dimensions:
        raise ValueError(f"vector {i} must be a list of {dimensions} whole numbers")
    for value in item:
        if type(value) is not int or not -LARGEST <= value <= LARGEST:
            raise ValueError(f"vector {i} holds something that is not a whole number of at most {LARGEST} either way")
    return item
