"""Tasks made of functions: what is written, and that everything after it is an ordinary task."""

import ast
import linecache
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pace_async as pace
from pace_async.errors import UsageError
from pace_async.interface.source_code import source_with_needs
from pace_async.programs.reading import text_of
from pace_async.task import load_task
from tests.interface import scorers

ROOT = Path(__file__).parents[2]
LAMBDAS: list[Callable[[object, object], float]] = [lambda instances, outputs: 0.0]
SEED = "def guess(instance):\n    return 1.0\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tasks are written under the test's folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(**changed: Any) -> pace.Task:
    fields: dict[str, Any] = {"name": "guessing", "seed": SEED, "score": scorers.nearness, "bounds": (-2, 0)}
    return pace.Task(**{**fields, **changed})


def test_a_function_and_a_seed_program_make_a_task_that_is_scored() -> None:
    task = made()
    assert pace.evaluate_program(task, SEED)["score"] == -2
    assert pace.evaluate_program(task, "def guess(instance):\n    return 2.5\n")["score"] == -0.5
    wrong = pace.evaluate_program(task, "def guess(instance):\n    return 'word'\n")
    assert (wrong["outcome"], wrong["score"]) == ("invalid_score", None)
    spec = load_task(str(task.folder)).spec
    assert spec.background == "Return a number near the one that is wanted."
    assert (spec.direction, spec.entry, spec.bounds.lower) == ("maximize", "guess", -2)


def test_instances_settings_metrics_and_other_fields_are_those_of_any_task() -> None:
    task = made(
        score=scorers.metrics,
        instances=scorers.drawn,
        direction="min",
        seed=SEED.replace("1.0", "float(instance)"),
        fields={"settings": {"times": -2}, "target": 0.0},
    )
    found = pace.evaluate_program(task, task.folder / "initial.py", seed=3)
    assert (found["score"], found["metrics"]) == (1.0, {"count": 2.0})
    assert pace.evaluate_program(task, task.folder / "initial.py", {"times": -4}, seed=3)["score"] == 2.0
    spec = load_task(str(task.folder)).spec
    assert (spec.direction, spec.target) == ("minimize", 0.0)


def test_only_what_the_function_needs_of_its_file_is_copied() -> None:
    name, code, file = source_with_needs(scorers.nearness, "score")
    assert (name, file) == ("nearness", "scorers.py")
    assert code.startswith("from __future__ import annotations\n")
    assert all(text in code for text in ("import math", "BEST = 3.0", "class Gauge", "def off("))
    assert not any(text in code for text in ("UNUSED", "Decimal", "drawn", "enclosing"))
    scope: dict[str, Any] = {"__name__": "code"}
    exec(compile(code, "code", "exec"), scope)
    assert scope["nearness"]([1], [2.0]) == -1


@pytest.mark.parametrize(
    ("score", "says"),
    [
        (*LAMBDAS, "not a lambda"),
        (scorers.enclosing(), "not a function within another function"),
        (scorers.Gauge().off, "not a method object"),
        (scorers.Gauge.off, "not a method or wrapped function"),
        (scorers.slow, "not a coroutine"),
        (scorers.cached, "not a _lru_cache_wrapper object"),
        (max, "not a builtin_function_or_method object"),
        (scorers.lost, "uses 'nowhere', which nothing at the top of its file binds"),
    ],
)
def test_what_has_no_source_of_its_own_is_refused_in_one_sentence(
    score: Callable[..., object], says: str, home: Path
) -> None:
    with pytest.raises(UsageError, match=says):
        made(score=score)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"name": "../up"}, "cannot name a task"),
        ({"bounds": (0, 0)}, "task 'guessing': bounds"),
        ({"seed": "def guess(:\n"}, "seed is not a Python program"),
        ({"seed": "x = 1\ny = 2\n"}, "has 0 functions"),
        ({"seed": "missing.py"}, "Cannot read missing.py"),
        ({"seed": "# EVOLVE-BLOCK-START\n" + SEED}, "seed: the program needs exactly one"),
        ({"instances": [float("nan")]}, "instances must be JSON values"),
        ({"direction": "up"}, "direction"),
        ({"fields": {"timout_s": 3}}, "did you mean 'timeout_s'"),
        ({"beside": ["evaluator.py"]}, "name of another file"),
    ],
)
def test_a_wrong_field_is_refused_and_nothing_stays(changed: dict[str, object], says: str, home: Path) -> None:
    with pytest.raises(UsageError, match=says):
        made(**changed)
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_equal_tasks_share_a_folder_and_a_changed_one_gets_another(home: Path) -> None:
    first = made()
    written = {path.name: path.stat().st_mtime_ns for path in first.folder.iterdir()}
    assert made().folder == first.folder
    assert {path.name: path.stat().st_mtime_ns for path in first.folder.iterdir()} == written
    assert made(bounds=(-3, 0)).folder != first.folder
    (first.folder / "evaluator.py").write_text("broken")
    assert "broken" not in text_of(made().folder / "evaluator.py")
    assert {path.name for path in (home / ".cache" / "pace" / "tasks").iterdir()} == {
        made().folder.name,
        made(bounds=(-3, 0)).folder.name,
    }


def test_a_task_is_written_where_the_commands_find_it_by_its_name() -> None:
    task = made()
    assert task.write("tasks/guessing") == Path("tasks/guessing")
    assert load_task("guessing").digest == load_task(str(task.folder)).digest
    with pytest.raises(UsageError, match="is there already"):
        task.write("tasks/guessing")


CELL = """
data = [1.0]
waited = await nothing()


def score(instances, outputs):
    return -abs(outputs[0] - {reads}[0])


task = await made()
"""


@pytest.mark.parametrize(("reads", "says"), [("data", ""), ("waited", "waits for an event loop")])
def test_the_cell_of_a_function_may_await_where_the_function_does_not_need_it(reads: str, says: str) -> None:
    """A notebook runs such a cell. Python itself compiles no `await` outside a function."""
    cell, source = f"cell-{reads}.py", CELL.format(reads=reads)
    linecache.cache[cell] = (len(source), None, source.splitlines(keepends=True), cell)
    scope: dict[str, Any] = {}
    definition = next(one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef))
    exec(compile(ast.Module([definition], []), cell, "exec"), scope)
    try:
        _, code, _ = source_with_needs(scope["score"], "score")
    except UsageError as error:
        assert says and says in str(error)
    else:
        assert not says
        assert ("data = [1.0]" in code, "await" in code) == (True, False)


def test_a_function_of_a_prompt_is_refused_in_one_sentence() -> None:
    code = (
        "import pace_async\ndef score(instances, outputs):\n    return 0.0\n\n"
        "try:\n    pace_async.Task(name='t', seed='def f(x):\\n    return x\\n', score=score, bounds=(0, 1))\n"
        "except pace_async.errors.UsageError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import pace_async.errors;" + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "must come from a file: the source of 'score' is not there" in done.stdout


@pytest.mark.long
@pytest.mark.nightly
def test_the_example_of_a_task_in_code_runs(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "a_task_in_code.py")],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "the seed program scores 0.0841413" in done.stdout
    assert str(home / "runs" / "low_point-1") in done.stdout
