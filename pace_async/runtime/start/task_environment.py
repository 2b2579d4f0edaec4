"""Makes the environment of an imported task: a virtual environment with the packages that pace's own Python lacks."""

import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution
from pathlib import Path

from pace_async.errors import GaveUp

INSTALL_S = 3600.0


def site_packages(prefix: Path) -> list[str]:
    """Where the Python of an environment has its packages."""
    return [str(folder) for folder in sorted(prefix.glob("lib/python*/site-packages"))]


def install_into(prefix: Path, packages: Sequence[str]) -> None:
    """Make a virtual environment at `prefix` if there is none, and add the packages that it lacks. Raises GaveUp, with
    the last line of what the installer said."""
    if not (prefix / "bin" / "python").exists():
        _run([sys.executable, "-m", "venv", str(prefix)], f"No virtual environment can be made at {prefix}")
    places = site_packages(prefix)
    lacking = [name for name in packages if not list(Distribution.discover(name=name, path=places))]
    if lacking:
        installer = [str(prefix / "bin" / "python"), "-m", "pip", "install", "--quiet", "--", *lacking]
        _run(installer, f"{', '.join(lacking)} cannot be installed into {prefix}")


def _run(command: Sequence[str], failed: str) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=INSTALL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GaveUp(f"{failed} ({error}): try again later.") from None
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip() and "notice" not in line]
        reason = lines[-1].strip().rstrip(".") if lines else f"exit code {done.returncode}"
        raise GaveUp(f"{failed} ({reason}): see whether the package index can be reached, and try again later.")
