"""What programs find where they are evaluated, as far as this machine tells: processors, packages to import, and
compilers to start."""

import os
import shutil
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pace_async.context.value import Surroundings
from pace_async.evaluate.sandbox.toolchain import SHOWN, STANDARD_PATH

KNOWN = (
    *("numpy", "scipy", "pandas", "scikit-learn", "numba", "networkx", "sympy", "torch", "jax", "cvxpy", "ortools"),
    *("polars", "statsmodels", "xgboost", "lightgbm", "shapely", "highspy", "pulp", "mpmath", "pyarrow", "rapidfuzz"),
)
"""Packages that programs may want. Others would only lengthen each question."""
COMPILERS = ("cc", "gcc", "g++", "clang", "clang++", "gfortran", "rustc", "go", "nvcc", "javac", "ghc")


@cache
def surroundings_here() -> Surroundings:
    """Of this machine. Sandboxes see the environment of pace itself."""
    found = ((name, _version(name)) for name in KNOWN)
    packages = tuple(f"{name} {number}" for name, number in found if number)
    return Surroundings(os.cpu_count(), packages, tools_on(STANDARD_PATH))


def tools_on(path: Sequence[str]) -> tuple[str, ...]:
    """The compilers in these folders whose files a sandbox shows."""
    found = ((name, shutil.which(name, path=os.pathsep.join(path))) for name in COMPILERS)
    return tuple(name for name, file in found if file is not None and Path(file).resolve().is_relative_to(SHOWN))


def _version(name: str) -> str | None:
    try:
        return ".".join(version(name).split(".")[:2])
    except PackageNotFoundError:
        return None
