"""Recorded runs beside a run: what they scored, and when a run is not compared."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pace_async.baseline import Baseline, BaselineComparison, Span, beside_of, load_baseline
from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.events import RunHeader
from pace_async.fitness import Fitness
from tests.support.fitness import DOWN, UP
from tests.support.population_facts import HEADER

RECORDED: dict[str, Any] = {
    "what": "without learning",
    "command": "pace run --seed SEED",
    "date": "2026-11-25",
    "seeds": [1, 2, 3],
    "settings": {"task": "circle_packing", "search.threads": 2},
    "step": 5,
    "curves": [[1.0, 1.5, 2.0], [1.0, 1.2, 1.4], [1.0, 1.1, 1.7]],
}
CONFIG = {"task": "circle_packing", "search": {"threads": 2}}


def beside(fitness: Fitness = UP, differs: str = "") -> BaselineComparison:
    return BaselineComparison(Baseline.model_validate(RECORDED), fitness, differs)


def header(tmp_path: Path, changed: dict[str, Any] | None = None, **config: object) -> RunHeader:
    file = tmp_path / "recorded.json"
    file.write_text(json.dumps({**RECORDED, **(changed or {})}))
    return replace(HEADER, config={**CONFIG, "baseline": str(file), **config})


def test_the_span_is_that_of_the_recorded_runs_after_as_many_candidates() -> None:
    assert beside().span(0) == Span(1.0, 1.0, 1.0)
    assert beside().span(5) == Span(1.1, 1.2, 1.5)
    assert beside().span(10) == Span(1.4, 1.7, 2.0)


def test_between_two_recorded_scores_the_later_counts_so_that_no_run_is_ahead_by_rounding() -> None:
    assert beside().span(1) == beside().span(5)
    assert beside().span(5.5) == beside().span(10)


def test_beyond_their_end_nothing_is_compared() -> None:
    assert beside().span(11) is None
    assert beside().lead(9.0, 11) is None
    assert beside().worse_than(9.0, 11) == 0


@pytest.mark.parametrize(("fitness", "ahead", "lead"), [(UP, 2, 0.1), (DOWN, 1, -0.1)])
def test_ahead_follows_the_direction_and_an_equal_score_is_not_ahead(fitness: Fitness, ahead: int, lead: float) -> None:
    assert beside(fitness).worse_than(1.8, 10) == ahead
    assert beside(fitness).lead(1.8, 10) == pytest.approx(lead)
    assert beside(fitness).worse_than(1.7, 10) == 1


def test_a_run_with_the_recorded_settings_is_compared(tmp_path: Path) -> None:
    found = beside_of(header(tmp_path), 1.0)
    assert found is not None
    assert found.differs == ""


def test_a_run_with_another_setting_or_another_seed_program_is_not_compared(tmp_path: Path) -> None:
    found = beside_of(header(tmp_path, search={"threads": 12}))
    assert found is not None
    assert found.differs == "search.threads is 12, and they have 2"
    assert found.span(5) is None
    other = beside_of(header(tmp_path), 1.25)
    assert other is not None
    assert other.differs == "the seed program has another score"


def test_a_run_whose_recorded_runs_are_gone_goes_on_without_them(tmp_path: Path) -> None:
    named = header(tmp_path)
    (tmp_path / "recorded.json").unlink()
    assert beside_of(named) is None
    assert beside_of(HEADER) is None


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"curves": [[1.0, 2.0]]}, "one curve for each seed"),
        ({"curves": [[1.0, 2.0], [1.0], [1.0, 2.0]]}, "the same length"),
        ({"curves": [[1.0], [1.0], [2.0]]}, "the seed program's score"),
        ({"step": 0}, "step"),
        ({"what": None}, "what"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_in_one_sentence(
    tmp_path: Path, changed: dict[str, Any], sentence: str
) -> None:
    name = str(header(tmp_path, changed).config["baseline"])
    with pytest.raises(UsageError, match=sentence) as refused:
        load_baseline(name)
    assert "\n" not in str(refused.value)


def test_an_unknown_name_is_refused_with_those_of_the_package() -> None:
    with pytest.raises(UsageError, match=r"no baseline 'first'.*first_run"):
        load_baseline("first")


def test_a_file_is_kept_by_its_whole_path_and_a_name_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert resolve(None, {"baseline": "recorded.json"}, {}).baseline == str(tmp_path / "recorded.json")
    assert resolve(None, {"baseline": "first_run"}, {}).baseline == "first_run"
