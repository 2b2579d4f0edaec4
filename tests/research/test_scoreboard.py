"""The scoreboard: which tasks it runs, and that its table says what the runs' rows say."""

import sqlite3
import sys
from pathlib import Path

import pytest

from pace_async.task import load_task
from research.scoreboard import Standing, main, row, standings, wanted, with_target
from tests.support.finished_runs import make_run


def test_every_bundled_task_with_a_best_known_score_is_on_it() -> None:
    found = with_target()
    assert {"circle_packing", "hexagon_packing", "kissing_11"} <= set(found)
    assert not {"eplb", "kuairec", "multi_evolve", "txn_scheduling"} & set(found)


def test_a_run_is_asked_for_as_a_user_would_ask() -> None:
    run = wanted(Path("runs"), "kissing_11", 2, 480)
    assert run.folder == Path("runs/kissing_11-2-480")
    assert list(run.arguments) == ["kissing_11", "--advisor", "reader", "--seed", "2", "--candidates", "480"]


def test_a_row_has_scores_and_shares_in_the_tasks_direction() -> None:
    task = load_task("min_distance_ratio")
    assert task.spec.target is not None
    middle = (28.0 + task.spec.target) / 2
    long = Standing(0, 28.0, [28.0, *[20.0] * 99, middle, *[task.spec.target] * 400])
    short = Standing(1, 28.0, [28.0, *[28.0] * 100])
    cells = row(task, [long, short], [100, 480]).strip("| ").split(" | ")
    assert cells[1:3] == ["lower", "28"]
    assert cells[3].endswith(f"[{middle:.6g}, 28]")
    assert cells[4] == f"{task.spec.target:.6g}"
    assert cells[6:] == ["0.250 [0.000, 0.500]", "1.000", "seeds 0 (500), 1 (100)"]


def first_of(folder: Path) -> float:
    """The score of the seed program in the only run."""
    (found,) = standings(folder, "circle_packing")
    return found.first


def test_the_page_says_what_the_longest_run_of_a_seed_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "circle_packing-0-480")
    make_run(tmp_path / "circle_packing-0-20")
    with sqlite3.connect(run / "population.db") as database:
        (best,) = database.execute("select max(score) from candidates").fetchone()
    database.close()
    assert 0.9 < first_of(tmp_path) < best
    with sqlite3.connect(run / "population.db") as database:
        database.execute("update runs set direction = 'minimize'")
    database.close()
    assert first_of(tmp_path) > 0.9
    with sqlite3.connect(run / "population.db") as database:
        database.execute("update runs set direction = 'maximize'")
    database.close()
    (found,) = standings(tmp_path, "circle_packing")
    assert (found.seed, found.best[-1]) == (0, best)
    monkeypatch.setattr("research.scoreboard.MARKS", (40, 480))
    page = tmp_path / "out" / "scoreboard.md"
    arguments = ["--report-only", "--tasks", "circle_packing", "--folder", str(tmp_path), "--page", str(page)]
    monkeypatch.setattr(sys, "argv", ["scoreboard.py", *arguments])
    assert main() == 0
    said = page.read_text()
    assert f"| {best:.6g} |" in said
    assert f"seeds 0 ({len(found.best) - 1})" in said
    assert "(scoreboard.svg)" in said
    assert "candidates" in page.with_suffix(".svg").read_text()
    assert "circle_packing" in capsys.readouterr().out


def test_without_a_finished_run_there_is_nothing_to_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--report-only", "--tasks", "circle_packing", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["scoreboard.py", *arguments])
    assert main() == 0
    assert "no run has finished yet" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
