"""Trusted scorer of step functions of both signs by the size of their autoconvolution: exact, in whole numbers.

The autoconvolution of a step function is linear between multiples of a step's width, so it is largest, of either
sign, at one of them. Its values there are sums of products of heights. Heights are whole numbers, so nothing is
rounded before the last division. Never shown to a candidate.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction

MOST_STEPS = 20_000
GREATEST = 10**12
SLOT = 12  # bytes that hold a value of the autoconvolution and its sign: 2 * MOST_STEPS * GREATEST**2 < 2**(8 * SLOT)


def instances(seed: int) -> list[dict[str, int]]:
    """One instance, the same for every seed: there is one problem, and the answer is worth what it is."""
    return [{"most_steps": MOST_STEPS}]


def score(instances: Sequence[object], outputs: Sequence[object]) -> dict[str, float]:
    """{"score": max |f * f| / (integral of f)**2, "steps": how many}. Raises ValueError for what is no
    such function."""
    if len(outputs) != 1 or len(instances) != 1:
        raise ValueError(f"one function was asked for and {len(outputs)} came")
    heights = _heights(outputs[0])
    highest = max(abs(value) for value in autoconvolution(heights))
    return {"score": float(Fraction(2 * len(heights) * highest, sum(heights) ** 2)), "steps": len(heights)}


def _heights(output: object) -> list[int]:
    """Raises ValueError unless it is a list of whole numbers whose sum is not 0."""
    if not isinstance(output, (list, tuple)) or not 1 <= len(output) <= MOST_STEPS:
        raise ValueError(f"a function must be a list of 1 to {MOST_STEPS} heights")
    for number, height in enumerate(output):
        if type(height) is not int or not -GREATEST <= height <= GREATEST:
            raise ValueError(f"height {number} must be a whole number from -{GREATEST} to {GREATEST}")
    if sum(output) == 0:
        raise ValueError("the integral of a function must not be 0")
    return list(output)


def autoconvolution(heights: Sequence[int]) -> list[int]:
    """(2n - 1,) sums of heights[i] * heights[k - i], exact. The heights become the digits of one large number, and the
    digits of its square are the sums. Each digit is raised by half its range, so that none is negative."""
    packed = _number(max(height, 0) for height in heights) - _number(max(-height, 0) for height in heights)
    count, half = 2 * len(heights) - 1, 1 << (8 * SLOT - 1)
    sums = (packed * packed + _number([half] * count)).to_bytes((count + 1) * SLOT, "little")
    return [int.from_bytes(sums[at : at + SLOT], "little") - half for at in range(0, count * SLOT, SLOT)]


def _number(digits: Iterable[int]) -> int:
    """The number with these digits, the lowest first."""
    return int.from_bytes(b"".join(digit.to_bytes(SLOT, "little") for digit in digits), "little")
