"""Placement of models: the scorer computes pressures itself, exactly, and nothing that is no placement has a score."""

import secrets
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from pace_async.implement.catalogue import MechanismEdit, apply_edit, load_catalogue
from pace_async.task import load_task, split_block
from tests.support.modules import load

TASK = load_task("prism")
EVALUATOR = load(TASK.folder / TASK.spec.evaluator, "prism_evaluator")
COMBINED = {"improve": "swap", "tries": 300, "heat": 0.1, "goal": "powers", "cooling": "linear"}
BEST_HERE = 23.91


def program_of(edits: dict[str, Any]) -> str:
    before, block, after = split_block(TASK.program)
    for mechanism, option in edits.items():
        block = apply_edit(block, MechanismEdit(mechanism, option))
    return before + block + after


def score_of(edits: dict[str, Any], seed: int = 0) -> float:
    """Of the seed program with these settings."""
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(program_of(edits), namespace)
    instances = EVALUATOR.instances(seed)
    return EVALUATOR.score(instances, [namespace["place"](each) for each in instances], seed)["score"]


def test_the_greatest_pressure_is_that_computed_by_hand() -> None:
    models = [[10, 6, 3], [30, 1, 5], [20, 4, 8]]
    assert EVALUATOR.greatest_pressure(2, models, [0, 0, 1]) == Fraction(11, 5) / 40
    assert EVALUATOR.greatest_pressure(2, models, [0, 1, 1]) == Fraction(2) / 70
    assert EVALUATOR.greatest_pressure(1, models, [0, 0, 0]) == Fraction(27, 10) / 20


def test_a_gpu_whose_weights_fill_its_memory_is_refused() -> None:
    assert EVALUATOR.greatest_pressure(2, [[40, 1, 1], [39, 1, 1]], [0, 0]) == 2
    for size in (40, 41):
        with pytest.raises(ValueError, match="GPU 0 has no memory left"):
            EVALUATOR.greatest_pressure(2, [[40, 1, 1], [size, 1, 1]], [0, 0])


def test_the_cases_depend_on_every_part_of_the_seed() -> None:
    seed = (1 << 128) + secrets.randbits(128)
    assert EVALUATOR.cases(seed) == EVALUATOR.cases(seed)
    assert all(EVALUATOR.cases(seed) != EVALUATOR.cases(seed ^ (1 << bit)) for bit in (0, 31, 64, 127))


def test_changed_instances_change_no_score() -> None:
    instances = EVALUATOR.instances(0)
    outputs = [[i % each["gpus"] for i in range(len(each["models"]))] for each in instances]
    first = EVALUATOR.score(instances, outputs, 0)
    for each in instances:
        each["models"], each["memory"] = [[0, 0, 1]] * len(each["models"]), 10**9
    assert EVALUATOR.score(instances, outputs, 0) == first


BREAK: dict[str, Callable[[list[Any]], object]] = {
    "a model too few": lambda p: p.pop(),
    "a model too many": lambda p: p.append(0),
    "no such GPU": lambda p: p.__setitem__(0, 100),
    "a negative GPU": lambda p: p.__setitem__(0, -1),
    "a float": lambda p: p.__setitem__(0, 0.0),
    "not a number": lambda p: p.__setitem__(0, float("nan")),
    "a truth value": lambda p: p.__setitem__(0, True),
    "a text": lambda p: p.__setitem__(0, "0"),
    "all on one": lambda p: p.__setitem__(slice(None), [0] * len(p)),
}


@pytest.mark.parametrize("how", BREAK)
def test_what_is_no_placement_is_refused(how: str) -> None:
    instances = EVALUATOR.instances(0)
    outputs: list[Any] = [[i % each["gpus"] for i in range(len(each["models"]))] for each in instances]
    BREAK[how](outputs[3])
    with pytest.raises(ValueError, match=r"placement|GPU"):
        EVALUATOR.score(instances, outputs, 0)


@pytest.mark.parametrize("output", [None, "best", {"placement": [0]}])
def test_an_output_of_another_kind_is_refused(output: object) -> None:
    instances = EVALUATOR.instances(0)
    with pytest.raises(ValueError, match="placement"):
        EVALUATOR.score(instances, [output] * len(instances), 0)
    with pytest.raises(ValueError, match="placements were asked for"):
        EVALUATOR.score(instances, [], 0)


def test_mechanisms_that_gain_little_alone_gain_much_together() -> None:
    begun = score_of({})
    assert begun == pytest.approx(15.331, abs=1e-3)
    assert 0.75 < (score_of(COMBINED) - begun) / (BEST_HERE - begun) < 1.0
    for mechanism, option in COMBINED.items():
        assert (score_of({mechanism: option}) - begun) / (BEST_HERE - begun) <= 0.3


def test_every_option_of_the_catalogue_applies_and_scores() -> None:
    assert TASK.catalogue_path is not None
    mechanisms = load_catalogue(TASK.catalogue_path).mechanisms
    assert all(len(mechanism.options) >= 3 for mechanism in mechanisms)
    for column in range(max(len(mechanism.options) for mechanism in mechanisms)):
        edits = {each.name: each.options[min(column, len(each.options) - 1)] for each in mechanisms}
        assert (program_of(edits) == TASK.program) == (column == 0)
        assert score_of(edits) > 0
