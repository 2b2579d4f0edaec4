"""Tasks whose program is a folder of files: what is the program, what is refused, and how a candidate is evaluated."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.implement.assemble import refuse_unless_possible
from pace_async.interface.evaluating import evaluate_program
from pace_async.programs.fileset import Program
from pace_async.task import Task, load_task
from tests.support.command_tasks import make_command_task

SCORE = "import os\nfrom pkg.a import VALUE\nprint('files', sorted(os.listdir('pkg')))\nprint('score', VALUE)\n"
FILES = {
    "pkg/__init__.py": "",
    "pkg/a.py": "VALUE = 3\n",
    "pkg/b.py": "x = 1\n",
    "score.py": SCORE,
    "tests/secret.py": "SECRET = 1\n",
    "data/long.txt": "x" * 300_000,
}


def make_folder_task(folder: Path, files: Mapping[str, str] = FILES, **more: object) -> Task:
    """A task with these files, of which those of pkg may change and tests are hidden."""
    for name, text in files.items():
        (folder / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "files" / name).write_text(text)
    fields: dict[str, object] = {
        "name": "own",
        "kind": "command",
        "background": "A number.",
        "coding_requirements": "None.",
        "direction": "maximize",
        "bounds": {"lower": 0, "upper": 10},
        "program": "files",
        "change": ["pkg/**"],
        "hide": ["tests/**"],
        "evaluate": ["python", "score.py"],
        "metrics": "printed",
        "score": "score",
        "timeout_s": 60,
        "memory_mb": 512,
        "deterministic": True,
        **more,
    }
    (folder / "task.yaml").write_text(json.dumps(fields))
    return load_task(str(folder))


def test_the_program_is_the_text_files_that_are_shown(tmp_path: Path) -> None:
    (tmp_path / "files" / "pkg").mkdir(parents=True)
    (tmp_path / "files" / "pkg" / "data.bin").write_bytes(b"\xff\0")
    task = make_folder_task(tmp_path)
    assert list(Program.of(task.program).files) == ["pkg/__init__.py", "pkg/a.py", "pkg/b.py", "score.py"]
    (tmp_path / "files" / "tests" / "secret.py").write_text("SECRET = 2\n")
    assert load_task(str(tmp_path)).digest != task.digest


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"kind": "function", "entry": "f", "evaluate": None, "metrics": None, "score": None},
            "only for tasks that say",
        ),
        ({"files": ["a.py"]}, "files and change exclude each other"),
        ({"catalogue": "catalogue.yaml"}, "a catalogue edits the lines of one file"),
        ({"program": "../files"}, "must name a folder"),
        ({"program": "nowhere"}, "is not a folder"),
        ({"change": ["/etc/**"]}, "must stay below"),
        ({"change": ["other/**"]}, "no text file that change matches"),
        ({"change": []}, "only for tasks that say"),
        ({"commit": "HEAD"}, "commit"),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(tmp_path: Path, more: dict[str, object], said: str) -> None:
    given = {name: value for name, value in more.items() if value is not None}
    make_folder_task(tmp_path)
    fields = json.loads((tmp_path / "task.yaml").read_text())
    fields.update(given)
    for name in [name for name, value in more.items() if value is None]:
        del fields[name]
    (tmp_path / "task.yaml").write_text(json.dumps(fields))
    with pytest.raises(UsageError, match=said) as raised:
        load_task(str(tmp_path))
    assert "\n" not in str(raised.value)


def test_a_link_and_twins_in_the_folder_are_refused_by_name(tmp_path: Path) -> None:
    make_folder_task(tmp_path)
    (tmp_path / "files" / "pkg" / "link.py").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match=r"'pkg/link\.py' is a link"):
        load_task(str(tmp_path))
    (tmp_path / "files" / "pkg" / "link.py").unlink()
    (tmp_path / "files" / "pkg" / "A.py").write_text("")
    with pytest.raises(UsageError, match="differ only in case"):
        load_task(str(tmp_path))


def test_more_text_than_a_program_may_have_is_refused_with_a_remedy(tmp_path: Path) -> None:
    files = {**FILES, **{f"pkg/long{number}.py": "# " + "x" * 200_000 for number in range(6)}}
    with pytest.raises(UsageError, match="choose fewer files by show, or hide some"):
        make_folder_task(tmp_path, files)


def test_the_catalog_and_an_agent_without_git_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_folder_task(tmp_path)
    with pytest.raises(UsageError, match="edits the lines of one file"):
        refuse_unless_possible("catalog", task)
    with pytest.raises(UsageError, match="writes the code itself changes one file"):
        refuse_unless_possible("advisor", task)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    assert shutil.which("git") is None
    with pytest.raises(UsageError, match="install Git"):
        refuse_unless_possible("command", task)


def scored(task: Task, files: Mapping[str, str]) -> tuple[str, float | None, str]:
    folder = task.folder.parent / "candidate"
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    found = evaluate_program(task.folder, folder)
    return found["outcome"], found["score"], found["detail"]


def test_a_candidate_is_evaluated_with_its_new_files_and_without_removed_ones(tmp_path: Path) -> None:
    check = "import os\nassert sorted(os.listdir('pkg')) == ['__init__.py', 'a.py', 'new.py'], os.listdir('pkg')\n"
    hidden = "assert open('tests/secret.py').read() == 'SECRET = 1\\n'\nprint('score', __import__('pkg.a').a.VALUE)\n"
    task = make_folder_task(tmp_path / "task", {**FILES, "score.py": check + hidden})
    shown = dict(Program.of(task.program).files)
    del shown["pkg/b.py"]
    assert scored(task, {**shown, "pkg/a.py": "from pkg.new import VALUE\n", "pkg/new.py": "VALUE = 7\n"})[:2] == (
        "ok",
        7,
    )
    assert scored(task, {**shown, "score.py": "print('score', 9)\n"}) == (
        "candidate_error",
        None,
        "'score.py' may not change",
    )


def test_a_program_of_one_file_is_none_of_this_task(tmp_path: Path) -> None:
    task = make_folder_task(tmp_path / "task")
    (tmp_path / "one.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match="is no folder"):
        evaluate_program(task.folder, tmp_path / "one.py")


def test_a_task_of_one_file_has_the_digest_and_the_text_that_it_had(tmp_path: Path) -> None:
    task = make_command_task(tmp_path / "own")
    assert task.digest == "c7ccf81761e062b0653d8678d0b07bfc"
    assert not task.spec.has_folder
    assert not Program.of(task.program).is_set
