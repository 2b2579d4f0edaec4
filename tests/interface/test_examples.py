"""The notebooks and scripts in examples/: each is run as a reader would run it, from its first line to its last."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import pace_async
from pace_async.objectives import advantages
from pace_async.registry.base import entry_points_of
from pace_async.registry.objectives import OBJECTIVES

EXAMPLES = Path(__file__).parents[2] / "examples"


def install_ours(folder: Path) -> Path:
    """The package of the custom objective in a folder, as `pip install` would leave it there."""
    source = EXAMPLES / "our_objective"
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    folder.mkdir()
    (folder / "rank_objective.py").write_text((source / "rank_objective.py").read_text())
    metadata = folder / f"our_objective-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    [(group, points)] = project["entry-points"].items()
    named = "\n".join(f"{name} = {value}" for name, value in points.items())
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{named}\n")
    return folder


def run_cells(notebook: Path, folder: Path) -> dict[str, Any]:
    """Run the code of a notebook in one namespace, as a kernel does: each cell is a file of its own."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(notebook.read_text())["cells"]:
        assert cell["cell_type"] in ("code", "markdown")
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)  # nothing of a machine is kept
            file = folder / f"{cell['id']}.py"
            file.write_text("".join(cell["source"]))
            exec(compile(file.read_text(), str(file), "exec"), names)
    return names


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.nightly
def test_the_notebook_of_a_task_in_code_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = run_cells(EXAMPLES / "own_task.ipynb", tmp_path)
    assert (found["seed"]["outcome"], found["seed"]["score"]) == ("ok", -8.0)  # 16 and 32 in place of 20
    assert found["wrong"]["outcome"] == "invalid_score"
    assert found["run"].best["score"] >= found["seed"]["score"]
    assert len(found["run"].rows()) == 1 + 6


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.nightly
def test_the_notebook_that_compares_runs_reads_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run_cells(EXAMPLES / "reading_and_comparing.ipynb", tmp_path)
    for run, curve in zip(found["runs"], found["curves"], strict=True):
        assert len(curve) == 1 + 5
        assert curve == sorted(curve)
        assert curve[-1] == run.best["score"]
    assert found["one"]["program"] == found["best"]["program"]
    assert "circle_packing-2: done, 5 candidates" in capsys.readouterr().out


def test_the_objective_of_a_package_in_the_examples_gives_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(install_ours(tmp_path / "site"))
    monkeypatch.setattr(OBJECTIVES, "_of_packages", {})
    entry_points_of.cache_clear()
    try:
        given = advantages("rank", [1.0, 2.0, 2.0, 90.0], k=1, alpha=0.0)
    finally:
        entry_points_of.cache_clear()
    assert isinstance(given, list)
    assert given[1] == given[2]
    assert given == pytest.approx([-value for value in reversed(given)])


def example(script: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **environment},
        timeout=280,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.nightly
def test_the_example_of_a_custom_objective_trains_with_it(tmp_path: Path) -> None:
    said = example("a_custom_objective.py", tmp_path, PYTHONPATH=str(install_ours(tmp_path / "site")))
    groups = said.split("group ")[1:]
    assert len(groups) == 2
    for group in groups:  # one of equal rewards is skipped
        told = [float(line.split()[-1]) for line in group.splitlines() if "has advantage" in line]
        assert group[3:].startswith("trained" if told else "skipped")
        assert len(told) in (0, 4)
        assert told == sorted(told)
        assert sum(told) == pytest.approx(0, abs=0.01)
    [run] = (tmp_path / "runs").iterdir()
    assert pace_async.open(run).sql("select objective from runs") == [{"objective": "rank"}]


@pytest.mark.long
@pytest.mark.nightly
def test_the_example_of_a_cluster_prints_three_sizes(tmp_path: Path) -> None:
    rows = [line.split("\t") for line in example("simulating_a_cluster.py", tmp_path).splitlines()]
    assert [row[0] for row in rows] == ["nodes", "1", "2", "4"]
    rates = [float(row[1]) for row in rows[1:]]
    assert rates == sorted(rates)
