"""Errors as JSON, versions, and names that a shell completes."""

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import jsonschema
import pytest
import torch

import pace_async
from pace_async.cli import versions
from pace_async.cli.completing import run_names, task_names
from pace_async.cli.main import refused
from pace_async.cli.schemas import schema_of
from tests.support.command_line import PACE, Shell


@pytest.mark.parametrize(
    ("words", "error", "code", "part"),
    [
        (["status", "no_such_run", "--json"], "UsageError", 2, "There is no run 'no_such_run'"),
        (["status", "--json", "--nonsense"], "UsageError", 2, "No such option: --nonsense"),
        (["advantages", "--json", "--k", "9", "1", "2"], "UsageError", 2, "k must lie between 1 and"),
    ],
)
def test_an_error_is_one_json_document_on_standard_error(
    shell: Shell, words: list[str], error: str, code: int, part: str
) -> None:
    said = shell.pace(*words)
    assert (said.code, said.out, len(said.err.splitlines())) == (code, "", 1)
    told = json.loads(said.err)
    jsonschema.validate(told, schema_of("error"))
    assert (told["error"], told["exit_code"], told["notes"]) == (error, code, [])
    assert part in told["message"]
    assert not told["message"].startswith("pace: ")
    plain = shell.pace(*(word for word in words if word != "--json"))
    assert plain.err == f"pace: {told['message']}\n"


def test_what_a_program_printed_is_in_the_notes_of_the_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = ["line one\nline \x1b[31mtwo"]
    monkeypatch.setattr(sys, "argv", ["pace", "eval", "--json"])
    refused("UsageError", "It fails.", 2, notes)
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert json.loads(said)["notes"] == notes
    monkeypatch.setattr(sys, "argv", ["pace", "eval", "--", "--json"])
    refused("UsageError", "It fails.", 2, notes)
    assert capsys.readouterr().err.splitlines()[:2] == ["pace: It fails.", "    line one"]


def test_the_version_is_printed_first_and_then_the_important_packages(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = shell.pace("--version").out.splitlines()
    assert lines[0] == f"pace {pace_async.__version__}"
    assert f"python {platform.python_version()}" in lines
    assert f"torch {torch.__version__}".split("+")[0] in {line.split("+")[0] for line in lines}

    def nothing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(versions, "version", nothing)
    assert "vllm not installed" in versions.versions()


def test_the_version_imports_nothing_heavy() -> None:
    code = (
        "import sys; from pace_async.cli.main import app; app(['--version'], standalone_mode=False); "
        "print(*sorted({'torch', 'trl', 'litellm', 'sqlalchemy', 'anyio', 'ray'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_runs_and_tasks_are_completed_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("circle_packing-1", "circle_packing-2", "eplb-1", "odd\x1b[31m", "empty"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        if name != "empty":
            (tmp_path / "runs" / name / "population.db").touch()
    monkeypatch.chdir(tmp_path)
    assert run_names("circle") == ["circle_packing-1", "circle_packing-2"]
    assert run_names("") == ["circle_packing-1", "circle_packing-2", "eplb-1"]
    assert "circle_packing" in task_names("cir")
    monkeypatch.chdir("/")
    assert run_names("") == []


@pytest.mark.long
def test_a_shell_gets_the_names(tmp_path: Path) -> None:
    (tmp_path / "runs" / "eplb-1").mkdir(parents=True)
    (tmp_path / "runs" / "eplb-1" / "population.db").touch()
    for words, wanted in (("pace status ep", "eplb-1"), ("pace run circle_pa", "circle_packing")):
        asked = {"_PACE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "2"}
        done = subprocess.run(
            [PACE], capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **asked}, timeout=60, check=False
        )
        assert done.stdout.split() == [wanted], done.stderr
