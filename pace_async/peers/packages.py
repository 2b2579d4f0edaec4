"""Which packages of a registry an example needs that pace's own Python does not have. Nothing is imported."""

import re
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.peers.example import tree_of
from pace_async.programs.parsed import needed_imports

PACKAGES = {
    "Crypto": "pycryptodome",
    "PIL": "pillow",
    "cv2": "opencv-python",
    "faiss": "faiss-cpu",
    "ot": "pot",
    "pysat": "python-sat",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Packages whose name is another than that of their module."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def packages_of(folder: Path, files: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """What the example names, and what these files of it import, without the standard library and the example's own
    modules."""
    own = {path.stem for path in folder.rglob("*.py")} | {path.parent.name for path in folder.rglob("__init__.py")}
    packages = dict.fromkeys(PACKAGES.get(name, name) for name in names)
    for file in files:
        if file.endswith(".py"):
            packages |= dict.fromkeys(
                PACKAGES.get(name, name)
                for name in _imported(folder / file)
                if name not in own and name not in sys.stdlib_module_names
            )
    return tuple(name for name in packages if _NAME.fullmatch(name))


def missing_of(packages: Sequence[str]) -> tuple[str, ...]:
    """Those that this Python cannot import."""
    return tuple(name for name in packages if not _is_here(name))


def _is_here(package: str) -> bool:
    modules = [module for module, name in PACKAGES.items() if name == package] or [package.replace("-", "_")]
    try:
        if find_spec(modules[0]) is not None:
            return True
        distribution(package)
    except (PackageNotFoundError, ImportError, ValueError):
        return False
    return True


def _imported(path: Path) -> dict[str, None]:
    """The first names of the imports that a file needs. None of one that cannot be read."""
    try:
        return dict.fromkeys(name.split(".")[0] for name in needed_imports(tree_of(path).body))
    except UsageError:
        return {}
