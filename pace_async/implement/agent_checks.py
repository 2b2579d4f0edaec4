"""Checks of an agent's command before a run. Nothing is started.

Invariant: a command that cannot be started is refused before anything is written, in one sentence that never repeats a
secret.
"""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from pace_async.config import ImplementerConfig
from pace_async.errors import UsageError
from pace_async.implement.agent_presets import PRESETS, command_of, login_missing
from pace_async.implement.shares import parse_shares
from pace_async.providers.redact import looks_secret
from pace_async.registry.implementers import implementer_of

_READS_A_FILE = re.compile(r"(python|pypy|node|deno|bun|ruby|perl|bash|sh|zsh)[\d.]*")
_FILE = re.compile(r"[^-{][^{}]*\.\w{1,4}")


def refuse_unless_runnable(config: ImplementerConfig, budget: float | None) -> None:
    """Raises UsageError if an implementer runs a command and there is none, it is not installed, it holds a secret, or
    a budget needs its price."""
    names = [share.model for share in parse_shares(config.model) if implementer_of(share.model).runs_command]
    if not names:
        return
    if not all(command_of(name, config) for name in names):
        raise UsageError(
            "--implementer command runs a program of yours: name it, as in "
            "--set 'implementer.command=[python, agent.py]'."
        )
    if any(looks_secret(word) for word in config.command):
        raise UsageError("implementer.command holds a secret and would be stored: put the secret into the environment.")
    for name in names:
        _refuse_unless_there(name, command_of(name, config))
    if budget is not None and config.price_per_call is None:
        raise UsageError(
            f"--budget needs to know what a call of --implementer {names[0]} may cost: give "
            "--set implementer.price_per_call=USD (0 if it is free)."
        )


def missing_logins(config: ImplementerConfig) -> list[str]:
    """A sentence for each known agent of which no login is found. It may be in a key chain, so nothing is refused."""
    names = [share.model for share in parse_shares(config.model)]
    missing = [(name, no_login) for name in names if (no_login := login_missing(name))]
    return [f"implementer {name}: {problem.found}; if it has none: `{problem.remedy}`" for name, problem in missing]


def _refuse_unless_there(name: str, command: Sequence[str]) -> None:
    program = command[0]
    if shutil.which(program) is None and name.partition(":")[0] in PRESETS:
        raise UsageError(f"--implementer {name}: there is no {program!r} on the PATH; install it and log in.")
    if shutil.which(program) is None:
        where = f"{program!r} is not a program that can be started" if "/" in program else f"there is no {program!r}"
        hint = "name an executable file" if "/" in program else "install it, or name its path"
        raise UsageError(f"implementer.command: {where}{'' if '/' in program else ' on the PATH'}; {hint}.")
    if len(command) > 1 and _READS_A_FILE.fullmatch(Path(program).name) and _FILE.fullmatch(command[1]):
        file = Path(command[1])
        if not file.is_file():
            raise UsageError(f"implementer.command: {command[1]} is not in {Path.cwd()}; name the file of the agent.")
