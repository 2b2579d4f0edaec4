"""A run finds its task from any directory, and never another task of the same name."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.events import RunHeader
from pace_async.runtime.start.new_task import make_task
from pace_async.task import BUNDLED, Task, best_known, load_task, reference_of, suffix_of_programs, task_of_run
from tests.support.command_line import Shell
from tests.support.population_facts import HEADER


def recorded(task: Task, reference: str) -> RunHeader:
    """The header of a run of that task, which was named by `reference`."""
    return replace(
        HEADER,
        task=task.name,
        task_digest=task.digest,
        task_folder=str(task.folder),
        task_suffix=".py",
        config={"task": reference},
    )


def with_target(folder: Path, target: float) -> None:
    """Say the task's best known score."""
    file = folder / "task.yaml"
    file.write_text(f"{file.read_text(encoding='utf-8').rstrip()}\ntarget: {target}\n", encoding="utf-8")


@pytest.fixture
def mine(tmp_path: Path) -> Task:
    make_task("mine", tmp_path / "first" / "mine")
    with_target(tmp_path / "first" / "mine", 1.5)
    return load_task(str(tmp_path / "first" / "mine"))


def test_a_task_is_found_from_another_directory_where_another_has_its_name(
    mine: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_task("mine", tmp_path / "second" / "tasks" / "mine")
    with_target(tmp_path / "second" / "tasks" / "mine", 2.5)
    monkeypatch.chdir(tmp_path / "second")
    for reference in ("mine", "./mine"):
        run = recorded(mine, reference)
        assert task_of_run(run).folder == mine.folder
        assert best_known(run) == 1.5
        assert reference_of(run) == str(mine.folder)


def test_a_task_that_is_gone_is_said_and_no_other_of_its_name_is_shown(
    mine: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_task("mine", tmp_path / "second" / "tasks" / "mine")
    with_target(tmp_path / "second" / "tasks" / "mine", 2.5)
    monkeypatch.chdir(tmp_path / "second")
    run = replace(recorded(mine, "mine"), task_suffix=".cpp")
    shutil.rmtree(mine.folder)
    with pytest.raises(UsageError, match=r"lay in .*, and is not there any more"):
        task_of_run(run)
    assert best_known(run) is None
    assert suffix_of_programs(run) == ".cpp"


def test_a_task_that_was_moved_is_found_where_the_user_named_it_if_it_is_the_same(
    mine: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "second" / "tasks").mkdir(parents=True)
    shutil.move(mine.folder, tmp_path / "second" / "tasks" / "mine")
    monkeypatch.chdir(tmp_path / "second")
    assert task_of_run(recorded(mine, "mine")).digest == mine.digest


def test_a_folder_that_holds_another_task_now_is_refused(mine: Task) -> None:
    run = replace(recorded(mine, "mine"), task="another")
    with pytest.raises(UsageError, match="holds the task 'mine' now, and the run is of 'another'"):
        task_of_run(run)


def test_a_run_of_an_earlier_version_finds_its_task_as_it_was_named(
    mine: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = replace(recorded(mine, "./mine"), task_folder=None, task_suffix=None)
    monkeypatch.chdir(mine.folder.parent)
    assert task_of_run(run).folder == mine.folder and suffix_of_programs(run) == ".py"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="begun in another directory"):
        task_of_run(run)


def test_a_task_of_the_package_is_named_and_not_located(tmp_path: Path) -> None:
    run = replace(HEADER, task_folder=str((BUNDLED / "tasks" / HEADER.task).resolve()), task_suffix=".py")
    assert reference_of(run) == HEADER.task


@pytest.mark.long
def test_a_run_is_read_and_resumed_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    assert shell.pace("task", "init", "mine").code == 0
    folder = tmp_path / "mine"
    (folder / "initial.py").rename(folder / "seed.py3")
    spec = folder / "task.yaml"
    spec.write_text(f"{spec.read_text(encoding='utf-8').rstrip()}\nprogram: seed.py3\n", encoding="utf-8")
    begun = ("--run-dir", "run", "--candidates", "2", "--display", "none", "--objective", "none", "--threads", "1")
    said = shell.pace("run", "./mine", "--advisor", "bandit", *begun)
    assert said.code == 0, said.err
    elsewhere = tmp_path / "elsewhere"
    make_task("mine", elsewhere / "tasks" / "mine")
    there = Shell(elsewhere, monkeypatch, capsys)
    assert json.loads(there.pace("best", "../run", "--json").out)["path"].endswith("best.py3")
    assert there.pace("export", "../run", "--what", "programs", "-o", "out").code == 0
    assert {file.suffix for file in (elsewhere / "out").iterdir()} >= {".py3"}
    said = there.pace("resume", "../run", "--candidates", "3", "--display", "none")
    assert said.code == 0, said.err
