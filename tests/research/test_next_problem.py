"""What was learned on one table, on the next: arms that differ in what they bring, and pairs that are whole."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pace_async.population.reading.reader import open_readonly
from research.trials.next_plan import AFTER, BEFORE, CANDIDATES, COMPARED, FIRST_A, FIRST_B, MARKS, PAIRS, arguments
from research.trials.next_problem import CHILD, compared, report


def test_the_arms_on_b_have_one_table_and_differ_in_what_they_bring() -> None:
    runs = Path("runs")
    assert FIRST_A + PAIRS <= FIRST_B
    cold, warm, told, bandit = (arguments(runs, arm, 3) for arm in AFTER)
    assert set(warm) - set(cold) == {"--advisor-from", "runs/learned-3"} and set(cold) < set(warm)
    assert told == bandit and f"--set=evaluation.seed={FIRST_B + 3}" in bandit
    learned, counted = (arguments(runs, arm, 3) for arm in BEFORE)
    for before, after in ((learned, cold), (counted, bandit)):
        assert set(before) ^ set(after) == {
            *(str(FIRST_A + 3), str(FIRST_B + 3)),
            *(f"--set=evaluation.seed={FIRST_A + 3}", f"--set=evaluation.seed={FIRST_B + 3}"),
        }


def test_a_verdict_is_of_whole_pairs_and_corrected_over_all_that_were_planned(tmp_path: Path) -> None:
    assert "told apart" not in report(tmp_path)
    gains = {"cold": 0.0, "warm": 0.5, "told bandit": 0.5, "bandit": 0.2}

    def curve(arm: str, pair: int) -> np.ndarray:
        return np.full(CANDIDATES, 1.0 + gains[arm] + (-1) ** pair * 0.01 * gains[arm])

    lines = list(compared({arm: {pair: curve(arm, pair) for pair in range(4)} for arm in AFTER}))
    planned = lines[2 : 2 + len(COMPARED) * len(MARKS)]
    assert [line.endswith(" told apart |") and "not told" not in line for line in planned] == [True, True, False, False]
    assert all(line.endswith("| exploratory |") for line in lines[2 + len(planned) :])


@pytest.mark.long
@pytest.mark.nightly
def test_a_told_bandit_searches_otherwise_from_its_first_candidate_on(tmp_path: Path) -> None:
    words = [word for word in arguments(tmp_path, "bandit", 0) if word != str(CANDIDATES)]
    words = ["run", *words, "16", "--display", "none", "--run-dir"]
    for folder, child in (("counted-0", []), ("told", [CHILD, str(tmp_path / "counted-0")])):
        module = "research.trials.next_problem" if child else "pace_async"
        subprocess.run([sys.executable, "-m", module, *child, *words, str(tmp_path / folder)], check=True, timeout=200)
    with open_readonly(tmp_path / "counted-0" / "population.db") as reader:
        counts = reader.record().run_state.visible.edits
    assert sum(each.gains + each.others for each in counts.values()) == 16
    asked = "select description from experiments order by lease limit 8"
    first, then = (
        sqlite3.connect(tmp_path / name / "population.db").execute(asked).fetchall() for name in ("counted-0", "told")
    )
    assert first != then
