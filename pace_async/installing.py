"""How an optional part of this package is installed, and whether its packages are here.

The line that is printed fits how pace itself came here: from a clone, from a wheel's file, or, where neither is known,
from what the reader has to name. It begins with `uv` in an environment that uv made, which has no pip.
"""

import json
import shlex
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pace_async.errors import NotHere

NAME = "pace-async"
PUBLISHED = False
"""Whether a package index has pace under this name."""

EXTRAS = {
    "learn": ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers", "huggingface_hub"),
    "api": ("litellm",),
    "parquet": ("pyarrow",),
    "tinker": ("tinker", "tokenizers"),
    "galapagos": ("galapagos",),
}
"""Extras that a search, or the reading of one, may need, and what each lets Python import."""


def missing(extra: str) -> tuple[str, ...]:
    """The packages of an extra that are not installed here. Nothing is imported."""
    return tuple(package for package in EXTRAS[extra] if find_spec(package) is None)


def refuse_without_litellm() -> None:
    """Raises NotHere if no model can be asked over the network."""
    if missing("api"):
        raise NotHere(
            f"Models over the network are asked through litellm, which is not installed: {install_line('api')}."
        )


def install_line(extra: str) -> str:
    """The command that adds an extra to this installation."""
    place, editable = _origin()
    pip = "uv pip" if _recorded("INSTALLER").strip() == "uv" and find_spec("pip") is None else "pip"
    requirement = shlex.quote(f"{place or 'PLACE'}[{extra}]")
    line = f"{pip} install {'-e ' if editable else ''}{requirement}"
    return line if place else f"{line}, where PLACE is a clone of pace or its wheel (docs/install.md)"


@cache
def _origin() -> tuple[str, bool]:
    """Where this package was installed from, as pip takes it, and whether from a clone that stays in use. Empty if it
    is not known."""
    record = _recorded("direct_url.json")
    source: dict[str, Any] = json.loads(record) if record else {}
    url = urlsplit(str(source.get("url", "")))
    path = unquote(url.path)
    if url.scheme != "file" or not Path(path).exists():
        return NAME if PUBLISHED else "", False
    return path, bool(source.get("dir_info", {}).get("editable"))


def _recorded(file: str) -> str:
    """A file that the installer left beside the package. Empty if there is none."""
    try:
        return distribution(NAME).read_text(file) or ""
    except PackageNotFoundError:
        return ""
