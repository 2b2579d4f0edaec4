"""What programs find where they are evaluated, as far as this machine tells: processors, packages to import, and
compilers to start."""

import os
import platform
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

from pace_async.context.value import Surroundings
from pace_async.evaluate.sandbox.toolchain import SHOWN, STANDARD_PATH
from pace_async.task import Task

KNOWN = (
    *("numpy", "scipy", "pandas", "scikit-learn", "numba", "networkx", "sympy", "torch", "jax", "cvxpy", "ortools"),
    *("polars", "statsmodels", "xgboost", "lightgbm", "shapely", "highspy", "pulp", "mpmath", "pyarrow", "rapidfuzz"),
)
"""Packages that programs may want. Others would only lengthen each question."""
COMPILERS = ("cc", "gcc", "g++", "clang", "clang++", "gfortran", "rustc", "go", "nvcc", "javac", "ghc")


def surroundings_of(task: Task) -> Surroundings:
    """What programs of the task find on this machine: the environment that the task names, else that of pace itself,
    and compilers only there."""
    prefix = task.spec.environment.prefix
    return _in_prefix(task.folder / Path(prefix).expanduser()) if prefix else surroundings_here()


@cache
def surroundings_here() -> Surroundings:
    """Of this machine and the environment of pace."""
    return Surroundings(os.cpu_count(), _packages(sys.path), tools_on(STANDARD_PATH), platform.python_version())


@cache
def _in_prefix(prefix: Path) -> Surroundings:
    """The Python of another environment is known by the folder of its packages, if it has only one."""
    folders = sorted(prefix.glob("lib/python3.*/site-packages"))
    if len(folders) != 1:
        return Surroundings(os.cpu_count())
    python = folders[0].parent.name.removeprefix("python")
    return Surroundings(os.cpu_count(), _packages([str(folders[0])]), python=python)


def tools_on(path: Sequence[str]) -> tuple[str, ...]:
    """The compilers in these folders whose files a sandbox shows."""
    tools = ((name, shutil.which(name, path=os.pathsep.join(path))) for name in COMPILERS)
    return tuple(name for name, file in tools if file is not None and Path(file).resolve().is_relative_to(SHOWN))


def _packages(folders: Sequence[str]) -> tuple[str, ...]:
    """The KNOWN packages in these folders, with their versions."""
    packages = {name: next(iter(distributions(name=name, path=list(folders))), None) for name in KNOWN}
    return tuple(
        f"{name} {'.'.join(each.version.split('.')[:2])}" for name, each in packages.items() if each is not None
    )
