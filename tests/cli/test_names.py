"""Names of files, and settings, that a terminal, a table or the system does not take."""

import os
import re
import shutil
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.runtime.run_paths import new_run_paths
from pace_async.task import load_task
from tests.support.command_line import Shell
from tests.support.evaluate_tasks import make_task
from tests.support.finished_runs import make_run, poison

STEERS = pytest.mark.fault("Configuration and terminal", "hostile text cannot steer the terminal")
REFUSED = pytest.mark.fault("Configuration and terminal", "a name or a number that no table or system takes")
EVIL = "r\x1b]0;owned\x07\u202eun"
RUN = f"runs/{EVIL}"
CLI = Path(__file__).parents[2] / "pace_async" / "cli"
COMMANDS = (
    *(["status", RUN], ["best", RUN], ["show", RUN, "3"], ["show", RUN, "--islands"], ["list"], ["diff", RUN]),
    *(["db", "check", RUN], ["db", "backup", RUN, f"b{EVIL}"], ["db", "copy", RUN, f"c{EVIL}"]),
    *(["db", "upgrade", RUN], ["resume", RUN], ["export", RUN, "-o", f"x{EVIL}"], ["report", RUN]),
    *(["report", RUN, "-o", f"q{EVIL}.html"], ["watch", RUN, "--once"], ["stop", RUN]),
    *(["rescore", RUN, "--dry-run"], ["prompts", "init", f"p{EVIL}"], ["run", f"./t{EVIL}", "--dry-run"]),
    ["rm", RUN, "--yes"],
)


@pytest.mark.long
@STEERS
def test_no_name_of_a_file_steers_the_terminal_that_a_command_writes_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    poison(make_run(tmp_path / RUN))
    shutil.copytree(load_task("circle_packing").folder, tmp_path / f"t{EVIL}")
    shell = Shell(tmp_path, monkeypatch, capsys)
    for command in COMMANDS:
        said = shell.pace(*command)
        assert said.code == 0, (command, said.err)
        assert not re.search("[\x1b\x07\u202e]", said.out + said.err), command


def test_only_documents_for_programs_are_printed_as_they_are() -> None:
    """All that a person reads goes through `tell`. Styled lines are cleaned before they get their colours."""
    echoes = {file.name: file.read_text().count("typer.echo(") for file in CLI.glob("*.py")}
    assert {name: count for name, count in echoes.items() if count} == {
        "comparing.py": 1,
        "configuration.py": 2,
        "output.py": 4,
    }


@REFUSED
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["run", "circle_packing", "--run-dir", "r\udcffun"], "Word 4 of the command is no text in UTF-8"),
        (["run", "x" * 5000], "File name too long"),
        (["run", "--run-dir", "x" * 300], "File name too long"),
        (["run", "--candidates", "9" * 20], "stop.candidates: must be between -2147483647 and 2147483647"),
        (["run", "--max-staleness", "9" * 20], "staleness.max_staleness: must be between"),
        (["run", "--seed", "9" * 20], "seed: must be between"),
        (["run", "--budget", "1.1e308"], "stop.budget: must lie between -1e+308 and 1e+308"),
        (["run", "--set", r'evaluation.memo="a\0b"'], "evaluation.memo: holds a NUL, or half of a character"),
        (["run", "--set", r'implementer.options={"a": {"\0": 1}}'], "implementer.options: holds a NUL"),
        (["run", "--set", r'task="a\0b"'], "task: holds a NUL"),
    ],
    ids=range(10),
)
def test_what_no_table_and_no_system_takes_is_one_sentence_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str], words: str
) -> None:
    said = Shell(tmp_path, monkeypatch, capsys).pace(*command)
    assert (said.code, said.out) == (2, ""), said
    assert words in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@REFUSED
@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"name: {'x' * 300}", "at most 100 characters"),
        ("bounds: {lower: 0, upper: 1.5e308}", "bounds must lie between"),
        ("target: 1.0e308", "target must lie between"),
        (f"memory_mb: {10**12}", "memory_mb must be between"),
        ("timeout_s: 1.7e308", "timeout_s must lie between"),
        (r'background: "a\0b"', "background holds a NUL"),
        (r'settings: {"a": "\0"}', "settings holds a NUL"),
    ],
    ids=range(7),
)
def test_a_task_s_value_that_no_table_takes_names_the_file_and_the_field(tmp_path: Path, line: str, words: str) -> None:
    file = make_task(tmp_path / "sums").folder / "task.yaml"
    others = [other for other in file.read_text().splitlines() if other.split(":")[0] != line.split(":")[0]]
    file.write_text("\n".join([*others, line]))
    with pytest.raises(UsageError, match=words) as refused:
        load_task(str(file.parent))
    assert str(file) in str(refused.value)


@REFUSED
def test_settings_of_the_task_s_own_may_hold_any_number(tmp_path: Path) -> None:
    file = make_task(tmp_path / "sums").folder / "task.yaml"
    file.write_text(f"{file.read_text()}settings: {{seed: {2**40}, name: a}}\n")
    assert load_task(str(file.parent)).spec.settings["seed"] == 2**40


@REFUSED
def test_a_folder_that_no_row_can_name_is_refused_for_runs_and_tasks(tmp_path: Path) -> None:
    """Its run could not be resumed: the row of the run names the task's folder."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/ta\xffsk"))
    make = make_task(tmp_path / "sums")
    shutil.copytree(make.folder, folder)
    with pytest.raises(UsageError, match="no path in UTF-8"):
        load_task(str(folder))
    with pytest.raises(UsageError, match="no path in UTF-8"):
        new_run_paths("sums", folder / "run")
