"""The bundled task: exact scoring, a seed program with a known score, edits that all run and score."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from pace_async.implement.catalogue import MechanismEdit, apply_edit, load_catalogue
from pace_async.task import load_task, split_block
from tests.support.modules import load

TASK = load_task("circle_packing")


EVALUATOR = load(TASK.folder / TASK.spec.evaluator, "circle_packing_evaluator")


def score_of(program: str) -> float:
    """The score of trusted program text."""
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(program, namespace)
    instances = EVALUATOR.instances(0)
    return float(EVALUATOR.score(instances, [namespace["pack"](instance) for instance in instances])["score"])


def test_the_seed_program_scores_what_the_task_says() -> None:
    assert score_of(TASK.program) == pytest.approx(0.9598, abs=1e-3)


def test_the_lower_bound_lies_above_the_seed_and_the_upper_at_the_records() -> None:
    assert TASK.spec.bounds.lower > 2.0
    assert TASK.spec.bounds.upper == pytest.approx(2.636, abs=1e-3)


def grid() -> list[list[float]]:
    """26 circles that do not overlap."""
    return [[(i % 6 + 0.5) / 6, (i // 6 + 0.5) / 6, 0.08] for i in range(26)]


def test_a_fair_packing_scores_its_sum_of_radii() -> None:
    assert EVALUATOR.score(EVALUATOR.instances(0), [grid()])["score"] == pytest.approx(26 * 0.08)


def touch(circles: list[list[float]]) -> None:
    """Let the first circle overlap the second by one unit in the last place."""
    circles[0][2] = math.nextafter(circles[1][0] - circles[0][0] - circles[1][2], 1.0)


BREAK: dict[str, Callable[[list[list[Any]]], object]] = {
    "overlap by one unit in the last place": touch,
    "outside": lambda c: c[0].__setitem__(0, 0.01),
    "negative radius": lambda c: c[0].__setitem__(2, -0.01),
    "nan": lambda c: c[0].__setitem__(2, math.nan),
    "infinite": lambda c: c[0].__setitem__(2, math.inf),
    "a truth value": lambda c: c[0].__setitem__(2, True),
    "text": lambda c: c[0].__setitem__(2, "0.08"),
    "a missing circle": lambda c: c.pop(),
    "one too many": lambda c: c.append([0.95, 0.95, 0.001]),
    "two numbers": lambda c: c[0].pop(),
}


@pytest.mark.parametrize("how", BREAK)
def test_a_packing_that_is_not_allowed_is_refused(how: str) -> None:
    circles: list[list[Any]] = grid()
    BREAK[how](circles)
    with pytest.raises(ValueError, match=r"circle|packing"):
        EVALUATOR.score(EVALUATOR.instances(0), [circles])


def test_every_mechanism_is_assigned_once_in_the_block_and_its_edits_run() -> None:
    assert TASK.catalogue_path is not None
    catalogue = load_catalogue(TASK.catalogue_path)
    assert len(catalogue.mechanisms) >= 8
    before, block, after = split_block(TASK.program)
    for mechanism in catalogue.mechanisms:
        assert any(apply_edit(block, MechanismEdit(mechanism.name, option)) == block for option in mechanism.options)
        last = mechanism.options[-1]
        assert 0 < score_of(before + apply_edit(block, MechanismEdit(mechanism.name, last)) + after) < 2.5


def test_the_same_program_scores_the_same_twice() -> None:
    before, block, after = split_block(TASK.program)
    program = before + apply_edit(block, MechanismEdit("optimizer", "adam")) + after
    assert score_of(program) == score_of(program)
