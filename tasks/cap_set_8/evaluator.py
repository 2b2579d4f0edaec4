"""Trusted scorer of cap sets: counts vectors over the field of three elements, no three of which add up to zero.

Everything is decided in whole numbers. Two different vectors a and b exclude one third vector, -(a + b), so it is
enough to look that one up for every pair. Never shown to a candidate.
"""

from collections.abc import Sequence

import numpy as np

DIMENSION = 8
VECTORS = 3**DIMENSION
PLACES = 3 ** np.arange(DIMENSION - 1, -1, -1)


def instances(seed: int) -> list[dict[str, int]]:
    """One instance, the same for every seed: there is one problem, and a set is worth what it is."""
    return [{"dimension": DIMENSION}]


def score(instances: Sequence[object], outputs: Sequence[object]) -> dict[str, float]:
    """{"score": vectors of the set}. Raises ValueError for what is no cap set."""
    if len(outputs) != 1 or len(instances) != 1:
        raise ValueError(f"one set was asked for and {len(outputs)} came")
    vectors = np.array(_vectors(outputs[0]), dtype=np.int64)
    numbers = vectors @ PLACES
    held = np.zeros(VECTORS, dtype=bool)
    held[numbers] = True
    if np.count_nonzero(held) != len(vectors):
        raise ValueError("a vector is in the set twice")
    for i, vector in enumerate(vectors[1:], start=1):
        thirds = (-(vector + vectors[:i])) % 3 @ PLACES
        if held[thirds].any():
            j = int(np.argmax(held[thirds]))
            third = ((-(vector + vectors[j])) % 3).tolist()
            raise ValueError(f"{vectors[j].tolist()}, {vector.tolist()} and {third} of the set add up to zero")
    return {"score": float(len(vectors))}


def _vectors(output: object) -> list[list[int]]:
    """Raises ValueError unless it is a list of vectors over {0, 1, 2}."""
    if not isinstance(output, (list, tuple)) or not 1 <= len(output) <= VECTORS:
        raise ValueError(f"a set must be a list of 1 to {VECTORS} vectors")
    for number, vector in enumerate(output):
        if not isinstance(vector, (list, tuple)) or len(vector) != DIMENSION:
            raise ValueError(f"vector {number} must be a list of {DIMENSION} coordinates")
        if not all(type(value) is int and 0 <= value <= 2 for value in vector):
            raise ValueError(f"vector {number} must hold whole numbers from 0 to 2")
    return [list(vector) for vector in output]
