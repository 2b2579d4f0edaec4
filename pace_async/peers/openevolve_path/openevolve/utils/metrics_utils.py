"""The fitness of a program from its metrics, as OpenEvolve 0.4.0 defines it, except that infinite numbers are left out.

OpenEvolve counts an infinite number. Then the mean of a program that failed is infinite, which is the best there is.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

COMBINED = "combined_score"


def finite(value: object) -> float | None:
    """The value as a float if it is a finite number and no truth value, else None."""
    if isinstance(value, bool | str | bytes):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]  # numpy's numbers are not int or float
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def safe_numeric_average(metrics: Mapping[str, Any]) -> float:
    """The mean of the numbers, 0 without any."""
    numbers = [number for value in metrics.values() if (number := finite(value)) is not None]
    return sum(numbers) / len(numbers) if numbers else 0.0


def get_fitness_score(metrics: Mapping[str, Any], feature_dimensions: Iterable[str] | None = None) -> float:
    """`combined_score` where it is a number. Else the mean of the metrics that are no feature dimension, or of all
    metrics if there is no other."""
    combined = finite(metrics.get(COMBINED))
    if combined is not None:
        return combined
    left_out = frozenset(feature_dimensions or ())
    counted = {name: value for name, value in metrics.items() if name not in left_out and finite(value) is not None}
    return safe_numeric_average(counted or metrics)
