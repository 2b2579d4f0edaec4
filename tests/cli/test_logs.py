"""pace log and --log: TensorBoard's own reader reads back what was written."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pace_async.observe.watchers.base import LoggedRun, Record
from pace_async.observe.watchers.tensorboard import TensorBoard
from tests.support.command_line import Shell, search

accumulators = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="pip install '.[tensorboard]'"
)
RUN = "circle_packing-1"


@pytest.fixture
def shell(finished_run: Path, shell: Shell) -> Shell:
    """In a folder with a finished run, which the test of a real one does without."""
    assert finished_run.is_dir()
    return shell


def read(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """(step, value) of every point, by name."""
    found: Any = accumulators.EventAccumulator(str(folder), size_guidance={"tensors": 0})
    found.Reload()
    return {
        name: [(point.step, point.tensor_proto.float_val[0]) for point in found.Tensors(name)]
        for name in found.Tags()["tensors"]
    }


def rows(run: Path, statement: str) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(run / "population.db")
    try:
        return database.execute(statement).fetchall()
    finally:
        database.close()


@pytest.mark.long
def test_tensorboard_reads_back_every_score_and_every_loss_of_the_rows(shell: Shell) -> None:
    run = shell.folder / "runs" / RUN
    said = shell.pace("log", RUN, "--to", "tensorboard=logs", "--json")
    assert said.code == 0, said.err
    found = read(shell.folder / "logs" / RUN)
    scores = rows(run, "select score from candidates where score is not null order by at, candidate")
    assert [value for _, value in found["search/score"]] == pytest.approx([score for (score,) in scores])
    losses = rows(run, "select update_number, loss from groups where state = 'trained' order by group_number")
    assert [step for step, _ in found["learner/loss"]] == [update for update, _ in losses]
    assert [value for _, value in found["learner/loss"]] == pytest.approx([loss for _, loss in losses], abs=1e-6)
    best = [value for _, value in found["search/best_score"]]
    assert best == sorted(best)
    assert [value for _, value in found["best_score/by_seconds"]] == best
    assert json.loads(said.out)["records"]["tensorboard"] > len(scores)


def test_a_run_is_not_logged_twice_into_one_place(shell: Shell) -> None:
    assert shell.pace("log", RUN, "--to", "tensorboard").code == 0
    assert read(shell.folder / "runs" / RUN / "tensorboard" / RUN)
    again = shell.pace("log", RUN, "--to", "tensorboard")
    assert (again.code, len(again.err.splitlines())) == (2, 1)
    assert "TensorBoard has this run already" in again.err


def test_a_run_without_a_folder_needs_a_place_for_its_log(shell: Shell) -> None:
    url = f"sqlite:///{shell.folder}/runs/{RUN}/population.db"
    assert "name one with --to tensorboard=FOLDER" in shell.pace("log", url, "--to", "tensorboard").err
    assert shell.pace("log", url, "--to", "tensorboard=logs").code == 0
    assert read(shell.folder / "logs" / "simulated")


def test_a_resumed_run_goes_on_in_the_same_log_and_what_was_written_is_there_at_once(tmp_path: Path) -> None:
    logged = LoggedRun("../odd name", "toy", 0.0, tmp_path, {})
    for number in (1, 2):
        watcher = TensorBoard()
        watcher.begin(logged, replay=False)
        watcher.write([Record("candidate", float(number), number, 0, 1.4, 0.5, {"search/best_score": number / 2})])
        folder = tmp_path / "tensorboard" / "_odd_name"
        assert read(folder)["search/best_score"][-1] == (number, number / 2)  # before it is closed
        watcher.close()
    found = read(folder)
    assert found["search/best_score"] == [(1, 0.5), (2, 1.0)]
    assert found["best_score/by_seconds"] == [(1, 0.5), (1, 1.0)]
    assert found["best_score/by_cents"] == [(50, 0.5), (50, 1.0)]


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.nightly
def test_a_real_run_and_its_resume_write_one_log_that_equals_the_rows(tmp_path: Path) -> None:
    begun = search(tmp_path, ["run", "--candidates", "8", "--threads", "2", "--log", "tensorboard"])
    assert begun.code == 0, begun.err
    resumed = search(tmp_path, ["resume", RUN, "--candidates", "12", "--log", "tensorboard"])
    assert resumed.code == 0, resumed.err
    run = tmp_path / "runs" / RUN
    found = read(run / "tensorboard" / RUN)
    assert [step for step, _ in found["search/reward"]] == list(range(1, 13))
    scores = rows(run, "select score from candidates where score is not null and candidate > 0 order by at, candidate")
    assert [value for _, value in found["search/score"]] == pytest.approx([score for (score,) in scores])
