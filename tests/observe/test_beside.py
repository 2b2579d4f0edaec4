"""Recorded runs on the screen and in the summary."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.baseline import Baseline, BaselineComparison
from pace_async.observe.beside import behind, legends
from pace_async.observe.chart import area, stripe
from pace_async.observe.layout import frame
from pace_async.observe.lines import BETWEEN
from pace_async.observe.model import Best, RunView
from pace_async.observe.summary import closing_words
from tests.support.fitness import UP
from tests.support.population_facts import HEADER

CURVES = [[0.0, *(0.01 * place * (1 + seed / 10) for place in range(1, 21))] for seed in range(3)]
RECORDED = Baseline.model_validate(
    {
        "what": "without learning",
        "command": "pace run --seed SEED",
        "date": "2026-11-25",
        "seeds": [0, 1, 2],
        "settings": {},
        "step": 5,
        "curves": CURVES,
    }
)


def view(candidates: int, score: float, differs: str = "") -> RunView:
    """A run that improves evenly."""
    steps = tuple((done, score * done / candidates) for done in range(candidates + 1))
    return RunView(
        HEADER,
        state="done",
        started_at=0.0,
        ended_at=60.0,
        seed_score=0.0,
        candidates=candidates,
        improvements=steps,
        best=Best(candidates, score, 1, "Change it.", candidates, 1.0),
        beside=BaselineComparison(RECORDED, UP, differs),
    )


def drawn(seen: RunView, columns: int, rows: int) -> list[str]:
    return [line.plain for line in frame(seen, 1.0, columns, rows)]


def cells(lines: list[str]) -> int:
    """The cells between two recorded scores, without the one of the legend."""
    return sum(line.count(BETWEEN) for line in lines) - 1


def test_the_stripe_lies_below_the_top_of_a_run_that_is_ahead_and_on_it_where_they_are_equal() -> None:
    scale = (0.0, 1.0)
    ahead, level = stripe([(0.2, 0.3)], 10, scale), stripe([(1.0, 1.0)], 10, scale)
    assert [row for row, marked in enumerate(ahead) if marked[0]] == [6, 7]
    assert [row for row, marked in enumerate(level) if marked[0]] == [0]
    assert area([1.0], 1, 10, scale)[0] == "█"


@pytest.mark.parametrize(("columns", "rows", "striped"), [(120, 40, True), (80, 40, True), (80, 24, False)])
def test_the_chart_shows_the_recorded_runs_if_it_is_high_enough_and_its_legend_how_many_are_behind(
    columns: int, rows: int, striped: bool
) -> None:
    lines = drawn(view(100, 0.9), columns, rows)
    assert cells(lines) > 10 if striped else cells(lines) == 0
    assert any(f"{BETWEEN} without learning, 3 recorded" in line and "ahead of 3 of 3" in line for line in lines)


@pytest.mark.parametrize(("columns", "rows"), [(120, 40), (80, 24), (40, 20)])
def test_a_run_that_is_not_compared_has_no_stripe_and_frames_of_the_same_height(columns: int, rows: int) -> None:
    other = drawn(view(100, 0.9, "search.threads is 12, and they have 8"), columns, rows)
    assert cells(other) == 0
    assert any("not compared" in line for line in other)
    heights = {len(drawn(seen, columns, rows)) for seen in (view(100, 0.9), view(400, 0.9), view(1, 0.0))}
    assert heights == {len(other)}


def test_beyond_the_recorded_length_the_stripe_ends() -> None:
    within, beyond = behind(view(100, 0.9), 10), behind(view(200, 0.9), 10)
    assert None not in within
    assert [span is None for span in beyond] == [False] * 5 + [True] * 5


def test_the_legend_says_a_run_that_is_behind_as_plainly() -> None:
    assert "ahead of 0 of 3, −0.1200 to their median" in legends(view(100, 0.1))[0].plain


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (view(100, 0.9), "scored 0.2000 to 0.2400 after as many candidates (median 0.2200); this run is ahead of 3"),
        (view(100, 0.21), "this run is ahead of 1 of them"),
        (view(101, 0.9), "3 recorded runs without learning (2026-11-25): they end after 100 candidates"),
        (view(100, 0.9, "search.threads is 12, and they have 8"), "not compared, because search.threads is 12"),
    ],
)
def test_the_summary_says_what_they_scored_and_how_many_are_behind(seen: RunView, said: str) -> None:
    assert said in "\n".join(closing_words(seen, Path("runs/one"), 60.0))


def test_a_run_without_recorded_ones_says_nothing_of_them() -> None:
    plain = replace(view(100, 0.9), beside=None)
    assert "baseline" not in "\n".join(closing_words(plain, Path("runs/one"), 60.0))
    assert not any(BETWEEN in line for line in drawn(plain, 120, 40))
