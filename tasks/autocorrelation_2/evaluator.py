"""Trusted scorer of step functions by how flat their autoconvolution is: exact, in whole numbers.

The autoconvolution of a step function is linear between multiples of a step's width, so its greatest value and
its norms follow from its values there. These are sums of products of heights. Heights are whole numbers, so nothing is
rounded before the last division. Never shown to a candidate.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

MOST_STEPS = 20_000
GREATEST = 10**12
SLOT = 12  # bytes that hold a value of the autoconvolution: MOST_STEPS * GREATEST**2 < 2**(8 * SLOT)


def instances(seed: int) -> list[dict[str, int]]:
    """One instance, the same for every seed: there is one problem, and the answer is worth what it is."""
    return [{"most_steps": MOST_STEPS}]


def score(instances: Sequence[object], outputs: Sequence[object]) -> dict[str, float]:
    """{"score": |f * f|_2**2 / (|f * f|_1 |f * f|_inf), "steps": how many}. Raises ValueError for what is no
    such function."""
    if len(outputs) != 1 or len(instances) != 1:
        raise ValueError(f"one function was asked for and {len(outputs)} came")
    heights = _heights(outputs[0])
    values = [0, *autoconvolution(heights), 0]
    # The square of a line from a to b has the integral (a * a + a * b + b * b) / 3 over a unit.
    squares = 2 * sum(value * value for value in values) + sum(a * b for a, b in pairwise(values))
    return {"score": float(Fraction(squares, 3 * sum(values) * max(values))), "steps": len(heights)}


def _heights(output: object) -> list[int]:
    """Raises ValueError unless it is a list of whole numbers that are not all 0."""
    if not isinstance(output, (list, tuple)) or not 1 <= len(output) <= MOST_STEPS:
        raise ValueError(f"a function must be a list of 1 to {MOST_STEPS} heights")
    for number, height in enumerate(output):
        if type(height) is not int or not 0 <= height <= GREATEST:
            raise ValueError(f"height {number} must be a whole number from 0 to {GREATEST}")
    if not any(output):
        raise ValueError("a function must not be zero everywhere")
    return list(output)


def autoconvolution(heights: Sequence[int]) -> list[int]:
    """(2n - 1,) sums of heights[i] * heights[k - i], exact. The heights become the digits of one large number, and the
    digits of its square are the sums."""
    packed = int.from_bytes(b"".join(height.to_bytes(SLOT, "little") for height in heights), "little")
    sums = (packed * packed).to_bytes(2 * len(heights) * SLOT, "little")
    return [int.from_bytes(sums[at : at + SLOT], "little") for at in range(0, len(sums) - SLOT, SLOT)]
