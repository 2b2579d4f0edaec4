"""The tutorial is true: its files and its commands, in the order of the page, work in an empty folder.

Runs are made small and train nothing, and the local server has another port. What a command prints on the page it
prints here too, where that is the same in each run. Of other lines only the first word is compared.
"""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pace_async.task import load_task
from research.rivals.local_implementer_server import LocalProvider, serving
from tests.support.command_line import Said, Shell, search

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
URL = "http://127.0.0.1:8123/v1"
FILE = re.compile(r"^`([\w/.]+)`:\n\n```[\w+]+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CERTAIN = ("pass ", "sound:", "score ", "worst_day ", "outcome ", "--- seed program", "pace: advisor", "  trust")
"""Beginnings of lines that are the same in every run. `score` and `outcome` are so of `pace eval`."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A command of the page, and the lines that it prints there."""

    line: str
    printed: tuple[str, ...]


def steps() -> Iterator[tuple[str, str] | Typed]:
    """The files (name, text) and commands of the page, in order."""
    text = PAGE.read_text(encoding="utf-8")
    for found in sorted([*FILE.finditer(text), *CONSOLE.finditer(text)], key=lambda match: match.start()):
        if found.re is FILE:
            yield found[1], found[2]
            continue
        for command in re.split(r"^\$ ", found[1], flags=re.MULTILINE)[1:]:
            line, *printed = command.splitlines()
            yield Typed(line, tuple(one for one in printed if one not in ("", "…")))


def small(words: list[str]) -> list[str]:
    """A run of few candidates."""
    if "--candidates" in words:
        words[words.index("--candidates") + 1] = "6"
    return words


def timeless(line: str) -> str:
    """The line without seconds."""
    return re.sub(r"\d+\.\d+ s\b", "", line).rstrip()


def begins(line: str) -> str:
    """What the line of any run begins with: its first word, without numbers."""
    return re.sub(r"\d.*", "", line.split()[0] if line.split() else "")


def compare(step: Typed, said: Said) -> None:
    """What the page prints must have been printed."""
    there = [timeless(line) for line in (said.out + said.err).splitlines()]
    same_always = not step.line.startswith(("pace best", "pace show", "pace diff"))
    for line in step.printed:
        if same_always and line.startswith(CERTAIN):
            assert timeless(line) in there, f"{step.line}\n{line}\n{said.out}"
        elif "candidate" not in line and "group" not in line and line[:1] not in " +-@":
            assert any(begins(other) == begins(line) for other in there), f"{step.line}\n{line}\n{said.out}"


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_tutorial_works_from_its_first_file_to_its_last_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    provider = LocalProvider(load_task("circle_packing"))
    compiled = shutil.which("g++") is not None
    typed = 0
    with serving(provider) as url:
        for step in steps():
            if not isinstance(step, Typed):
                (tmp_path / step[0]).parent.mkdir(exist_ok=True)
                (tmp_path / step[0]).write_text(step[1].replace(URL, url), encoding="utf-8")
                continue
            if step.line.startswith("export "):
                name, _, value = step.line.removeprefix("export ").partition("=")
                monkeypatch.setenv(name, value)
                provider.task = load_task(str(tmp_path / "oven"))
                continue
            if not step.line.startswith("pace "):
                subprocess.run(["sh", "-c", step.line], cwd=tmp_path, check=True)
                continue
            if "oven_cpp" in step.line and "init" not in step.line and not compiled:
                continue
            words = small(shlex.split(step.line.replace(URL, url))[1:])
            if (
                words == ["show", "best", "--prompts"]
                and json.loads(shell.pace("best", "--json").out)["candidate"] == 0
            ):
                words[1] = "1"  # nobody was asked for the seed program, and among 6 candidates it may stay the best
            said = search(tmp_path, words) if words[0] == "run" else shell.pace(*words)
            assert said.code == 0, f"{step.line}: {said.err}{said.out}"
            assert "Traceback" not in said.err
            compare(step, said)
            typed += 1
    assert typed >= 18
    assert provider.advised["ok"] >= 6
    assert provider.given["ok"] >= 6
