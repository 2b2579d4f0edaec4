"""Noise in the score of columnar: what a search sees, and what its runs are measured by."""

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from pace_async.task import load_task
from research.benchmarks.site_board import Board
from research.trials.noise import DEVIATION, NOISY, exact_curve, noisy_task


def test_noise_belongs_to_the_program_and_its_exact_score_is_reported(tmp_path: Path) -> None:
    exact, noisy = Board(load_task("columnar"), 3), Board(load_task(str(noisy_task(tmp_path))), 3)
    assert noisy.task.name == NOISY
    gaps: list[float] = []
    for place, option in exact.moves(exact.start)[:60]:
        values = tuple(option if at == place else old for at, old in enumerate(exact.start))
        gaps.append(noisy.score(values) - exact.score(values))
        noisy.scores.clear()
        assert noisy.score(values) - exact.score(values) == gaps[-1]
        instances = noisy.evaluator.instances(3)
        found = noisy.evaluator.score(instances, [noisy.program["pipelines"](instances[0])], 3)
        assert found["exact"] == pytest.approx(exact.score(values))
    assert len(set(gaps)) == len(gaps)
    assert DEVIATION / 2 < np.std(gaps) < DEVIATION * 2


def population(*rows: tuple[float | None, dict[str, float]]) -> sqlite3.Connection:
    """Candidates in their order, the seed program first."""
    database = sqlite3.connect(":memory:")
    database.execute("create table candidates (candidate, lease, at, score, metrics)")
    for number, (score, metrics) in enumerate(rows):
        values = (number, number or None, float(number), score, json.dumps(metrics))
        database.execute("insert into candidates values (?, ?, ?, ?, ?)", values)
    return database


def test_a_curve_is_the_exact_score_of_what_looks_best() -> None:
    rows = ((0.0, 0.1), (0.5, 0.3), (0.4, 0.9), (None, None), (0.6, 0.2))
    found = exact_curve(population(*((score, {} if exact is None else {"exact": exact}) for score, exact in rows)))
    assert found is not None
    assert found.tolist() == [0.3, 0.3, 0.3, 0.2]


def test_a_run_without_noise_has_no_such_curve() -> None:
    assert exact_curve(population((0.0, {"bytes": 3.0}), (0.5, {"bytes": 2.0}))) is None
