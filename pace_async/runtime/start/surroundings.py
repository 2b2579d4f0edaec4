"""What programs find where they are evaluated, as far as this machine tells: processors, and packages to import."""

import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from pace_async.context.value import Surroundings

KNOWN = (
    *("numpy", "scipy", "pandas", "scikit-learn", "numba", "networkx", "sympy", "torch", "jax", "cvxpy", "ortools"),
    *("polars", "statsmodels", "xgboost", "lightgbm", "shapely", "highspy", "pulp", "mpmath", "pyarrow", "rapidfuzz"),
)
"""Packages that programs may want. Others would only lengthen each question."""


@cache
def surroundings_here() -> Surroundings:
    """Of this machine. Sandboxes see the environment of pace itself."""
    found = ((name, _version(name)) for name in KNOWN)
    return Surroundings(os.cpu_count(), tuple(f"{name} {number}" for name, number in found if number))


def _version(name: str) -> str | None:
    try:
        return ".".join(version(name).split(".")[:2])
    except PackageNotFoundError:
        return None
