"""best.diff beside best.py: in a run of `pace optimize` the two always belong together."""

from pathlib import Path

import pytest

from pace_async.runtime.best_program import how_to_apply, write_best
from pace_async.runtime.run_paths import RunPaths


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run of `pace optimize` of the program `sub/route.py`."""
    paths = RunPaths(tmp_path)
    paths.own_task.mkdir()
    (paths.own_task / "route.py").write_text("a = 1\nb = 2")
    paths.own_program.write_text("sub/route.py\n")
    return paths


def test_each_new_best_program_has_its_own_difference(run: RunPaths) -> None:
    for value in (3, 4):
        path = write_best(run, ".py", f"a = {value}\nb = 2\n")
        assert path.read_text() == f"a = {value}\nb = 2\n"
        lines = run.difference.read_text().splitlines()
        assert lines[:2] == ["--- a/sub/route.py", "+++ b/sub/route.py"]
        assert f"+a = {value}" in lines and "\\ No newline at end of file" in lines
    assert how_to_apply(run, ".py")[1].endswith(f"`patch -p1 < {run.difference}` applies it.")


def test_a_best_program_that_is_the_users_own_has_none(run: RunPaths) -> None:
    write_best(run, ".py", "a = 3\n")
    write_best(run, ".py", "a = 1\nb = 2")
    assert not run.difference.exists()
    assert how_to_apply(run, ".py") == []


def test_a_run_of_another_task_has_none(tmp_path: Path) -> None:
    write_best(RunPaths(tmp_path), ".sh", "echo 1\n")
    assert [file.name for file in tmp_path.iterdir()] == ["best.sh"]
