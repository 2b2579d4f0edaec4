"""A forced lag: arms that differ in one thing, tokens as old as asked for, and what a table calls told apart."""

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.configure import resolve
from pace_async.yaml_text import value_of
from research.trials.forced_lag import CHILD
from research.trials.lag_plan import DESIGNS, STILL, UNCORRECTED, USUAL, Design, Trial, arguments, trials
from research.trials.lag_report import LagFigures, compared, tables
from research.trials.plan import FRESH


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_the_arms_of_a_lag_differ_in_one_setting_of_the_learner_and_have_development_seeds(design: Design) -> None:
    every = trials(design)
    assert len(every) == len(set(every))
    assert max(design.seeds) < FRESH
    for lag in design.lags:
        mine = [trial for trial in every if trial.lag == lag and trial.seed == design.seeds[0]]
        assert [trial.arm for trial in mine] == list(design.arms)
        control = set(arguments(Trial(design, lag, design.control, design.seeds[0])))
        for trial in mine:
            if trial.arm != design.control:
                given = set(arguments(trial))
                [own] = given - control
                assert own.startswith("--set=learner.")
                assert all(word.split("=")[1] == own.split("=")[1] for word in control - given)


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_the_settings_of_every_arm_are_those_of_a_run(design: Design) -> None:
    for arm in design.arms:
        words = arguments(Trial(design, 2, arm, design.seeds[0]))
        pairs = [word.removeprefix("--set=").split("=") for word in words if word.startswith("--set=")]
        tree = {key: value_of(text, key) for key, text in pairs}
        config = resolve(None, {"task": "columnar", "advisor.model": "reader", **tree}, environment={})
        assert config.learner.tiny_learning_rate == design.rate


def test_the_arm_that_does_not_learn_differs_from_the_one_without_a_lag_in_rate_and_correction() -> None:
    still, fresh = (set(arguments(Trial(USUAL, 0, arm, 100))) for arm in (STILL, "decoupled"))
    assert still - fresh == {"--set=learner.tiny_learning_rate=1e-12"}
    assert fresh - still == {"--set=learner.tiny_learning_rate=0.0001", "--set=learner.correction=decoupled"}


def figures(arm: str, seed: int, best: float, lag: int = 16) -> LagFigures:
    return LagFigures(lag, arm, seed, best / 2, best, useful=0.3, age=13.0, k3=0.01, ess=0.98, shortened=1)


def test_a_difference_is_told_apart_by_its_pairs_alone() -> None:
    same = {seed: figures("none", seed, 1.0 + seed) for seed in range(5)}
    ahead = {seed: figures("sequence", seed, 1.5 + seed + seed / 100) for seed in range(5)}
    mixed = {seed: figures("geometric", seed, 1.0 + seed + (-1) ** seed) for seed in range(5)}
    arms = {(16, "none"): same, (16, "sequence"): ahead, (16, "geometric"): mixed}
    control = (16, "none")
    rows = list(compared(arms, [((16, "sequence"), control), ((16, "geometric"), control), ((16, "m2po"), control)]))
    assert len(rows) == 4  # without m2po, which has no runs
    assert rows[2].startswith("| sequence at 16 − none at 16 | 5 | ")
    assert rows[2].endswith("| told apart |")
    assert "+0.520 [+0.500, +0.540]" in rows[2]
    assert rows[3].endswith("| not told apart |")


def test_the_tables_compare_corrections_lags_and_learning() -> None:
    rows = [
        figures(arm, seed, 1.0 + seed * gain) for arm, gain in (("none", 0.1), ("decoupled", 0.12)) for seed in (1, 2)
    ]
    rows += [figures(arm, seed, 1.0 + seed * 0.3, lag=0) for arm in ("decoupled", STILL) for seed in (1, 2)]
    whole = tables(rows, UNCORRECTED)
    assert "| 16 | decoupled | 2 | " in whole
    for pair in ("decoupled at 16 − none at 16", "decoupled at 16 − decoupled at 0", "decoupled at 16 − still at 0"):
        assert pair in whole
    equal = next(line for line in whole.splitlines() if line.startswith("| decoupled at 0 − still at 0"))
    assert equal.endswith("| 1 | not told apart |")  # no pair differs


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.nightly
def test_tokens_are_exactly_as_old_as_asked_for_once_there_are_that_many_versions(tmp_path: Path) -> None:
    run = tmp_path / "run"
    short = replace(USUAL, candidates=40, rate=1e-3)
    command = [sys.executable, "-m", "research.trials.forced_lag", CHILD, "2", "run"]
    command += [*arguments(Trial(short, 2, "none", 100)), "--run-dir", str(run), "--display", "none"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    database = sqlite3.connect(run / "population.db")
    ages = database.execute("select trained_by, min(staleness), max(staleness) from leases group by 1").fetchall()
    assert ages == [(update, min(update, 2), min(update, 2)) for update in range(5)]
