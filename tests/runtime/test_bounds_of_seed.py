"""A task without bounds: progress is measured from its seed program's score to its target."""

import json
import re
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.task import bounds_from, limited, load_task
from tests.support.command_line import Shell

BOUNDS = re.compile(r"^bounds:\n(?:  .*\n)+", re.MULTILINE)


def without_bounds(shell: Shell, target: float | None) -> Path:
    """A new task, which minimises, without bounds."""
    assert shell.pace("task", "init", "tours").code == 0
    file = shell.folder / "tours" / "task.yaml"
    text, gone = BOUNDS.subn("", file.read_text())
    assert gone == 1
    file.write_text(text if target is None else f"{text}target: {target}\n")
    return file


def recorded(shell: Shell) -> tuple[float, float]:
    said = shell.pace("db", "sql", "runs/tours-1", "select lower, upper from runs", "--json")
    [row] = json.loads(said.out)
    return row["lower"], row["upper"]


@pytest.mark.long
def test_a_run_records_the_bounds_and_a_resume_has_the_same(shell: Shell) -> None:
    without_bounds(shell, 1.0)
    run = ("run", "./tours", "--advisor", "bandit", "--threads", "2", "--display", "none")
    assert shell.pace(*run, "--candidates", "2").code == 0
    lower, upper = recorded(shell)
    seed = json.loads(shell.pace("show", "runs/tours-1", "0", "--json").out)["score"]
    assert (lower, upper) == (1.0, seed)
    settings = json.loads(shell.pace("config", "show", "--config", "runs/tours-1/config.yaml", "--json").out)
    assert (settings["reward"]["lower"], settings["reward"]["upper"]) == (1.0, seed)
    assert shell.pace("resume", "runs/tours-1", "--candidates", "4", "--display", "none").code == 0
    assert recorded(shell) == (lower, upper)
    query = "select score, reward from candidates where outcome = 'ok' and lease > 0"
    rows = json.loads(shell.pace("db", "sql", "runs/tours-1", query, "--json").out)
    for row in rows:
        assert row["reward"] == pytest.approx(5 * min(1, max(0, (upper - row["score"]) / (upper - lower))))


def test_without_bounds_and_target_a_task_is_refused(shell: Shell) -> None:
    without_bounds(shell, None)
    said = shell.pace("run", "./tours", "--dry-run")
    assert said.code == 2
    assert "bounds are missing: give bounds with lower and upper, or a target" in said.err


def test_one_bound_of_a_run_is_not_enough_and_two_are(shell: Shell) -> None:
    task = load_task(str(without_bounds(shell, 1.0).parent))
    with pytest.raises(UsageError, match="set both"):
        limited(task, lower=0.5)
    spec = limited(task, lower=0.5, upper=9.0).spec
    assert (spec.has_bounds, spec.bounds.lower, spec.bounds.upper) == (True, 0.5, 9.0)
    assert not limited(task, timeout_s=3.0).spec.has_bounds


def test_a_seed_program_at_the_target_is_refused_and_either_direction_is_ordered(shell: Shell) -> None:
    spec = load_task(str(without_bounds(shell, 1.0).parent)).spec
    bounds = bounds_from(spec, 4.0)
    assert (bounds.lower, bounds.upper) == (1.0, 4.0)
    upwards = spec.model_copy(update={"direction": "maximize"})
    bounds = bounds_from(upwards, -2.0)
    assert (bounds.lower, bounds.upper) == (-2.0, 1.0)
    for given, seed in ((spec, 1.0), (spec, 0.5), (upwards, 1.0), (upwards, 3.0)):
        with pytest.raises(UsageError, match="no worse than the target"):
            bounds_from(given, seed)


def test_the_check_of_a_task_measures_from_the_seed_program(shell: Shell) -> None:
    without_bounds(shell, 1.0)
    assert "FAIL" not in shell.pace("task", "check", "tours").out
