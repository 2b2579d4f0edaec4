"""The command that begins the same run again, and the versions of what is installed here. Pure but for reading those.

Invariant: the command has every setting that differs from the default, so `pace run` resolves the same configuration.
"""

import json
import platform
import shlex
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from pace_async import __version__
from pace_async.config import Config
from pace_async.report.compared_runs import flat

_LEFT_OUT = ("population.url",)
"""Settings of the place, not of the run."""
_LIBRARIES = ("torch", "transformers", "trl", "vllm", "litellm", "numpy", "sqlalchemy")


def command(config: Mapping[str, object]) -> str:
    """`pace run` with the settings of a run."""
    usual = flat(Config().model_dump(mode="json"))
    words = ["pace", "run", str(config.get("task", ""))]
    for key, value in flat(config).items():
        if key not in ("task", *_LEFT_OUT) and key in usual and usual[key] != value:
            words += ["--set", f"{key}={value if isinstance(value, str) and _plain(value) else json.dumps(value)}"]
    return shlex.join(words)


def _plain(value: str) -> bool:
    """Whether YAML reads a text of these characters as the text."""
    if not value.replace("/", "").replace("_", "").replace("-", "").isalpha():
        return False
    return value.lower() not in ("yes", "no", "on", "off", "true", "false", "null", "y", "n", "inf", "nan")


def versions() -> str:
    """This pace, Python, and the libraries that are installed beside it."""
    releases = [f"pace {__version__}", f"Python {platform.python_version()}"]
    for library in _LIBRARIES:
        try:
            releases.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            continue
    return ", ".join(releases)
