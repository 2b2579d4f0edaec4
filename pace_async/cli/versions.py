"""What `pace --version` prints: pace, Python, and the packages on which a run depends most."""

import platform
from importlib.metadata import PackageNotFoundError, version

from pace_async import __version__

MATTER = ("torch", "transformers", "trl", "vllm", "litellm", "sqlalchemy", "anyio", "ray")


def versions() -> list[str]:
    """`pace VERSION` first. A package that is not installed says so. Nothing is imported."""
    lines = [f"pace {__version__}", f"python {platform.python_version()}", f"system {platform.system()}"]
    return [*lines, *(f"{package} {_version_of(package)}" for package in MATTER)]


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
