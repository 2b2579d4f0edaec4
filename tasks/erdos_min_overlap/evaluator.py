"""Trusted scorer of step functions by their greatest overlap with their complement: exact, in whole numbers.

The overlap is linear in the shift between multiples of a step's width, so its greatest value is one of its values
there. These follow from sums of heights and of products of heights. Heights are whole numbers, so nothing is rounded
before the last division. Never shown to a candidate.
"""

from collections.abc import Sequence
from fractions import Fraction

MOST_STEPS = 20_000
GREATEST = 10**12
SLOT = 12  # bytes that hold a sum of products: MOST_STEPS * GREATEST**2 < 2**(8 * SLOT)


def instances(seed: int) -> list[dict[str, int]]:
    """One instance, the same for every seed: there is one problem, and the answer is worth what it is."""
    return [{"most_steps": MOST_STEPS}]


def score(instances: Sequence[object], outputs: Sequence[object]) -> dict[str, float]:
    """{"score": greatest overlap, "steps": how many}. Raises ValueError for what is no such function.

    A step h[i] is heights[i] * n / (2 * sum), which makes the integral over [0, 2] exactly 1."""
    if len(outputs) != 1 or len(instances) != 1:
        raise ValueError(f"one function was asked for and {len(outputs)} came")
    heights = _heights(outputs[0])
    return {"score": float(greatest_overlap(heights)), "steps": len(heights)}


def _heights(output: object) -> list[int]:
    """Raises ValueError unless it is a list of whole numbers, none more than twice their mean, and not all 0."""
    if not isinstance(output, (list, tuple)) or not 1 <= len(output) <= MOST_STEPS:
        raise ValueError(f"a function must be a list of 1 to {MOST_STEPS} heights")
    for number, height in enumerate(output):
        if type(height) is not int or not 0 <= height <= GREATEST:
            raise ValueError(f"height {number} must be a whole number from 0 to {GREATEST}")
    if not any(output):
        raise ValueError("a function must not be zero everywhere")
    if max(output) * len(output) > 2 * sum(output):
        raise ValueError("a height is more than twice the mean: it exceeds 1 when the integral is 1")
    return list(output)


def greatest_overlap(heights: Sequence[int]) -> Fraction:
    """max over k of the sum over i of h[i] * (1 - h[i + k]) * 2 / n, where i and i + k are both steps."""
    n, whole = len(heights), sum(heights)
    greatest = 0
    left, right = 0, 0  # sums of the first and of the last heights, as many as overlap
    products = correlation(heights)
    for overlapping in range(1, n + 1):
        left += heights[overlapping - 1]
        right += heights[n - overlapping]
        greatest = max(greatest, 2 * whole * max(left, right) - n * products[overlapping - 1])
    return Fraction(greatest, 2 * whole * whole)


def correlation(heights: Sequence[int]) -> list[int]:
    """(n,) for 1 to n overlapping steps: sums of heights[i] * heights[n - overlapping + i], exact. The heights become
    the digits of one large number, in both orders, and the digits of the product are the sums."""
    forwards, backwards = _number(heights), _number(heights[::-1])
    sums = (forwards * backwards).to_bytes(2 * len(heights) * SLOT, "little")
    return [int.from_bytes(sums[at : at + SLOT], "little") for at in range(0, len(heights) * SLOT, SLOT)]


def _number(digits: Sequence[int]) -> int:
    """The number with these digits, the lowest first."""
    return int.from_bytes(b"".join(digit.to_bytes(SLOT, "little") for digit in digits), "little")
