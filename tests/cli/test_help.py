"""Every command has an example in its help, and each example works as it is printed."""

import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer.main

from pace_async.cli.main import app
from pace_async.configure import dump
from pace_async.peers import galapagos
from pace_async.runtime.start.new_task import make_task
from pace_async.task import load_task
from tests.support.command_line import PACE, Shell, search
from tests.support.examples import GALAPAGOS, OPENEVOLVE, example
from tests.support.finished_runs import copy_run, make_run
from tests.support.no_server import end_at_once
from tests.support.repositories import make_repository
from tests.support.simulated_runs import settings

CHILDREN = ("pace run circle_packing", "pace db shell")
"""Examples that need a process of their own: they handle signals, or read standard input."""

LONG = ("pace optimize", "pace task check my_task")
"""Examples that take several seconds of processor time each."""

NIGHTLY = (CHILDREN[0], "pace simulate", "pace plan")
"""Those that take ten and more."""


def commands(command: Any, name: str = "pace") -> Iterator[tuple[str, Any]]:
    """Every command that does something."""
    if hasattr(command, "commands"):
        for key, inner in command.commands.items():
            yield from commands(inner, f"{name} {key}")
    else:
        yield name, command


def marks_of(line: str) -> list[pytest.MarkDecorator]:
    if line.startswith(NIGHTLY):
        return [pytest.mark.long, pytest.mark.nightly]
    return [pytest.mark.long] if line.startswith(LONG) else []


COMMANDS = dict(commands(typer.main.get_command(app)))
EXAMPLES = [
    pytest.param(
        name,
        line,
        id=line,
        marks=marks_of(line),
    )
    for name, command in COMMANDS.items()
    for line in re.findall(r"^\s*Example: (.+)$", command.help or "", re.MULTILINE)
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that an example names: a run, a task, a program, a file of settings."""
    folder = tmp_path_factory.mktemp("examples")
    run = copy_run(make_run(folder / "made"), folder)
    with_words = shutil.copytree(run, run.with_name("eplb-1"))
    with closing(sqlite3.connect(with_words / "population.db")) as database, database:
        database.execute("update runs set config = json_set(config, '$.search.memory', 'run')")
    shutil.rmtree(folder / "made", ignore_errors=True)
    make_task("my_task", folder / "my_task")
    shutil.copy(load_task("circle_packing").folder / "initial.py", folder / "my_program.py")
    shutil.copy(folder / "my_program.py", folder / "mine.py")
    (folder / "score.py").write_text("print(1)\n")
    make_repository(folder / "my_repository")
    (folder / "run.yaml").write_text(dump(settings()))
    example(folder / "openevolve" / "examples" / "function_minimization", OPENEVOLVE)
    example(folder / "galapagos" / "circle_packing", GALAPAGOS)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_that_begins_with_its_name(name: str) -> None:
    found = [param.values[1] for param in EXAMPLES if param.values[0] == name]
    assert found
    assert all(str(line).startswith(name) for line in found)


@pytest.mark.long
@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_an_example_works_as_printed(
    name: str,
    line: str,
    prepared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = Path(shutil.copytree(prepared, tmp_path / "here"))
    monkeypatch.setattr(galapagos, "_folders", lambda: (folder / "galapagos" / "circle_packing",))
    program, *arguments = shlex.split(line)
    assert program == "pace"
    if line.startswith(CHILDREN):
        said = search(folder, arguments)  # the learner has tests of its own
        assert said.code == 0, said.err
        return
    end_at_once(monkeypatch)
    said = Shell(folder, monkeypatch, capsys).pace(*arguments)
    assert said.code == 0, said.err + said.out
    assert said.out or said.err
    assert "Traceback" not in said.err


def test_help_prints_an_example_on_a_line_of_its_own() -> None:
    for name in COMMANDS:
        assert len(name.split()) >= 2
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, PACE, "run", "--help"], capture_output=True, text=True, env=environment, timeout=60, check=True
    )
    assert "  Example: pace run circle_packing --async --max-staleness 2 --candidates 16\n" in done.stdout
