"""Runs Git. With `isolated` it reads no configuration of the user's and finds no repository above its folder."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

LIMIT_S = 120.0
_OF_ONE_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")


class GitFailed(Exception):
    """Git is not installed, or ended with an error. The message is one line."""


def git_is_there() -> bool:
    """Whether Git is installed."""
    return shutil.which("git") is not None


def git(
    folder: Path,
    *words: str,
    given: bytes = b"",
    isolated: bool = False,
    allowed: Sequence[int] = (0,),
    variables: Mapping[str, str] | None = None,
) -> bytes:
    """What Git prints in a folder, with `given` as its standard input. Raises GitFailed for an exit code that is not
    `allowed`, and after LIMIT_S seconds."""
    environment = _isolated(folder) if isolated else _of_user()
    try:
        ended = subprocess.run(
            ["git", *words],
            cwd=folder,
            env={**environment, **(variables or {})},
            input=given,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
    except FileNotFoundError:
        raise GitFailed("Git is not installed on this machine" if not git_is_there() else f"{folder} is gone") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitFailed(f"git {_verb(words)}: {error}") from None
    if ended.returncode not in allowed:
        lines = os.fsdecode(ended.stderr).splitlines()
        marked = [line for line in lines if line.startswith(("error: ", "fatal: "))] or lines
        first = marked[0].partition(": ")[2] or marked[0] if marked else f"exit code {ended.returncode}"
        raise GitFailed(f"git {_verb(words)}: {first.strip()}")
    return ended.stdout


def _verb(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-") and "=" not in word), "")


def _of_user() -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if name not in _OF_ONE_REPOSITORY}
    return {**known, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


def _isolated(folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
