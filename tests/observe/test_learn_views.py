"""What the learner reported of each update, as SQL has it: by the age of tokens, and skips by reason."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.observe.learning_sections import learner
from pace_async.observe.model import LearnerView, RunView
from tests.support.population_facts import HEADER, fresh, rollout, shipped, skipped, trained

BY_AGE = {
    "loss": 0.1,
    "tokens_age_0": 90.0,
    "ess_age_0": 1.0,
    "k3_age_0": 0.001,
    "clip_fraction_age_0": 0.0,
    "mean_ratio_age_0": 1.0,
    "tokens_age_12": 10.0,
    "ess_age_12": 0.5,
    "clip_fraction_age_12": 0.25,
    "mean_ratio_age_12": 1.5,
}


async def test_figures_by_age_and_skips_by_reason_can_be_selected(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        for lease in range(1, 9):
            await store.commit(*rollout(lease))
        await store.commit(shipped(1, (1, 2)), replace(trained(1, (1, 2)), metrics=BY_AGE))
        for number, reason in ((2, "group branch collapsed"), (3, "group branch collapsed"), (4, "no token is left")):
            leases = (2 * number - 1, 2 * number)
            ended = replace(skipped(number, leases, update=1), reason=reason)
            await store.commit(replace(shipped(number, leases, update=1), staleness=(1, 1)), ended)
    connection = sqlite3.connect(tmp_path / "population.db")
    rows = connection.execute("select * from ages order by age").fetchall()
    skips = connection.execute("select reason, groups from skips order by reason").fetchall()
    connection.close()
    assert rows == [
        ("demo", 1, 0, 0, 90, 1.0, 0.001, 0.0, 1.0),
        ("demo", 1, 0, 12, 10, 0.5, None, 0.25, 1.5),
    ]
    assert skips == [("group branch collapsed", 2), ("no token is left", 1)]


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (80, "100 % of new data · 50 % of data 12 updates old"),
        (30, "100 % new · 50 % 12 old"),
    ],
)
def test_the_learner_panel_has_a_line_of_figures_by_age_as_wide_as_fits(width: int, line: str) -> None:
    view = RunView(HEADER, learner=LearnerView(metrics=BY_AGE))
    shown = [text.plain for text in learner(view, width, 9).lines]
    assert len(shown) == 9
    assert [text for text in shown if text.startswith("usable")] == [f"usable    {line}"]
    assert not any("usable" in text.plain for text in learner(view, width, 4).lines)
