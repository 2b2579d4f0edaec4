"""Where the installation of a command lies: the folder that has to be shown for it to run."""

import subprocess
from functools import cache
from pathlib import Path

ASK_S = 20.0
_PYTHON = ("-c", "import sys; print(sys.base_prefix)")
_ASKED_FOR_ITSELF = {
    "rustc": ("--print", "sysroot"),
    "go": ("env", "GOROOT"),
    "python3": _PYTHON,
    "python": _PYTHON,
}
"""Commands that report where their installation lies. The file on the path may be a script that chooses among several
installations and cannot run in a sandbox."""


@cache
def installation_of(command: Path) -> Path:
    """The folder of an installation: as its command reports it, or where the command's real path lies. Never a home
    directory."""
    arguments = _ASKED_FOR_ITSELF.get(command.name)
    if arguments is not None:
        try:
            output = subprocess.run(
                [command, *arguments], capture_output=True, text=True, timeout=ASK_S, check=True
            ).stdout
            if output.strip() and Path(output.strip()).is_dir():
                return Path(output.strip()).resolve()
        except (OSError, subprocess.SubprocessError):
            pass
    real = command.resolve()
    above = real.parent.parent
    if real.parent.name == "bin" and (above.parent.is_relative_to("/opt") or above.is_relative_to("/usr")):
        return above
    return real.parent
