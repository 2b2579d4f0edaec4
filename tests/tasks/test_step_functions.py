"""Tasks whose answer is a step function: scores equal those of rational arithmetic, and nothing else gets a score."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.implement.catalogue import MechanismEdit, apply_edit, load_catalogue
from pace_async.task import load_task, split_block
from tests.support.modules import load

TASKS = {
    name: load_task(name)
    for name in ("autocorrelation_1", "autocorrelation_2", "autocorrelation_3", "erdos_min_overlap")
}
EVALUATORS = {name: load(task.folder / task.spec.evaluator, f"{name}_evaluator") for name, task in TASKS.items()}
AUTOCORRELATIONS = [name for name in TASKS if name.startswith("autocorrelation")]
OF_ONE_SIGN = [name for name in TASKS if name != "autocorrelation_3"]
GREATEST = 10**12
MOST_STEPS = 20_000
COMBINED = {"pieces": 64, "start": "noise", "step": 0.03, "rounds": 800, "peak": "power", "sharpness": 300}
"""Settings that together go more than half of the way in each task."""


def score(name: str, output: object) -> float:
    """Of one output."""
    return EVALUATORS[name].score(EVALUATORS[name].instances(0), [output])["score"]


def program_of(name: str, edits: dict[str, Any]) -> str:
    before, block, after = split_block(TASKS[name].program)
    for mechanism, option in edits.items():
        block = apply_edit(block, MechanismEdit(mechanism, option))
    return before + block + after


def output_of(program: str) -> Any:
    """What trusted program text answers."""
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(program, namespace)
    return namespace["heights"]({"most_steps": MOST_STEPS})


def at(f: Sequence[Fraction], width: Fraction, x: Fraction) -> Fraction:
    """(f * f)(x) of steps of one width from 0 on, by the overlap of each pair of steps."""
    total = Fraction(0)
    for i, a in enumerate(f):
        for j, b in enumerate(f):
            low, high = max(i * width, x - (j + 1) * width), min((i + 1) * width, x - j * width)
            total += a * b * max(high - low, Fraction(0))
    return total


def expected(name: str, heights: Sequence[int]) -> float:
    """By the definitions, with each integral over f * f exact by Simpson's rule, because it is linear in between."""
    n = len(heights)
    if name == "erdos_min_overlap":
        h = [Fraction(height * n, 2 * sum(heights)) for height in heights]
        overlaps = [sum(h[i] * (1 - h[i + k]) for i in range(n) if 0 <= i + k < n) for k in range(-n, n + 1)]
        return float(max(overlaps) * Fraction(2, n))
    width = Fraction(1, 2 * n)
    f = [Fraction(height) for height in heights]
    values = [at(f, width, k * width / 2) for k in range(4 * n + 1)]
    integral = sum(f) * width
    if name != "autocorrelation_2":
        return float(max(abs(value) for value in values) / integral**2)
    triples = list(zip(values[::2], values[1::2], values[2::2], strict=False))
    second = sum((a * a + 4 * b * b + c * c) * width / 6 for a, b, c in triples)
    first = sum((a + 4 * b + c) * width / 6 for a, b, c in triples)
    return float(second / (first * max(values)))


@pytest.mark.parametrize(
    ("name", "heights", "known"),
    [
        ("autocorrelation_1", [1], 2.0),
        ("autocorrelation_1", [7, 7, 7], 2.0),
        ("autocorrelation_1", [1, 0, 0], 6.0),
        ("autocorrelation_1", [1, 2], 4 * 4 / 9),
        ("autocorrelation_2", [5], 2 / 3),
        ("autocorrelation_2", [0, 0, GREATEST], 2 / 3),
        ("autocorrelation_3", [-1], 2.0),
        ("autocorrelation_3", [3, -1], 4 * 9 / 4),
        ("autocorrelation_3", [1, -2], 4 * 4 / 1),
        ("erdos_min_overlap", [1], 0.5),
        ("erdos_min_overlap", [1, 1, 1, 1], 0.5),
        ("erdos_min_overlap", [0, 1, 1, 0], 0.5),
        ("erdos_min_overlap", [1, 0], 1.0),
        ("erdos_min_overlap", [1, 2, 1], 7 / 16),
    ],
)
def test_small_functions_score_what_the_definition_says(name: str, heights: list[int], known: float) -> None:
    assert score(name, heights) == pytest.approx(known, rel=1e-15)
    assert expected(name, heights) == pytest.approx(known, rel=1e-15)


NUMBERS = st.one_of(st.integers(0, 5), st.integers(0, GREATEST), st.just(GREATEST))


@pytest.mark.parametrize("name", TASKS)
@settings(max_examples=30)
@given(heights=st.lists(NUMBERS, min_size=1, max_size=5), signs=st.lists(st.booleans(), min_size=5, max_size=5))
def test_a_score_is_that_of_rational_arithmetic(name: str, heights: list[int], signs: list[bool]) -> None:
    if name == "autocorrelation_3":
        heights = [height if sign else -height for height, sign in zip(heights, signs, strict=False)]
    too_high = name == "erdos_min_overlap" and max(heights) * len(heights) > 2 * sum(heights)
    if sum(heights) == 0 or too_high:
        with pytest.raises(ValueError, match=r"integral|zero everywhere|mean"):
            score(name, heights)
    else:
        assert score(name, heights) == expected(name, heights)


@pytest.mark.parametrize("name", TASKS)
def test_the_largest_functions_that_are_allowed_fit_into_the_digits(name: str) -> None:
    constant = {"autocorrelation_2": 2 / 3, "erdos_min_overlap": 0.5}.get(name, 2.0)
    assert score(name, [GREATEST] * MOST_STEPS) == pytest.approx(constant, rel=1e-6)
    with pytest.raises(ValueError, match="1 to 20000"):
        score(name, [1] * (MOST_STEPS + 1))


def test_opposite_signs_fit_into_the_digits_too() -> None:
    alternating = [GREATEST, -GREATEST] * (MOST_STEPS // 2)
    alternating[1] = -GREATEST + 1
    count, f = len(alternating), [value / GREATEST for value in alternating]
    assert score("autocorrelation_3", alternating) == pytest.approx(2 * count * count * GREATEST**2, rel=1e-6)
    assert sum(f) == pytest.approx(1e-12, rel=1e-3)


def test_a_saturated_function_is_allowed_and_one_beyond_it_by_one_is_not() -> None:
    flat, high = GREATEST // 2, GREATEST
    assert score("erdos_min_overlap", [0, high, flat, flat]) > 0.5
    with pytest.raises(ValueError, match="more than twice the mean"):
        score("erdos_min_overlap", [0, high, flat, flat - 1])


REFUSED: dict[str, object] = {
    "no list": {"0": 1},
    "a word": "12345",
    "empty": [],
    "zero everywhere": [0, 0],
    "not a number": [1, math.nan],
    "infinite": [1, math.inf],
    "a float": [1, 1.0],
    "a negative zero": [1, -0.0],
    "subnormal": [5e-324],
    "a truth value": [True, True],
    "a text": ["1", "1"],
    "nothing": [1, None],
    "rows": [[1, 2], [2, 1]],
    "beyond the greatest": [1, GREATEST + 1],
    "very long": [1, 10**5000],
    "beyond the least": [1, -GREATEST - 1],
}


@pytest.mark.parametrize("how", REFUSED)
@pytest.mark.parametrize("name", TASKS)
def test_what_is_no_function_is_refused(name: str, how: str) -> None:
    with pytest.raises(ValueError, match=r"height|function|integral"):
        score(name, REFUSED[how])


@pytest.mark.parametrize("name", OF_ONE_SIGN)
def test_negative_heights_are_refused_where_the_problem_has_none(name: str) -> None:
    with pytest.raises(ValueError, match="height 1"):
        score(name, [2, -1, 2])


@pytest.mark.parametrize("name", TASKS)
def test_two_functions_for_one_are_refused(name: str) -> None:
    evaluator = EVALUATORS[name]
    with pytest.raises(ValueError, match="one function"):
        evaluator.score(evaluator.instances(0), [[1], [1]])
    assert evaluator.instances(0) == evaluator.instances(2**128 + 5)


def way(name: str, found: float) -> float:
    """Share of the way from the seed program's score to the best known."""
    begun, target = score(name, output_of(TASKS[name].program)), TASKS[name].spec.target
    assert target is not None
    return (found - begun) / (target - begun)


@pytest.mark.parametrize("name", TASKS)
def test_mechanisms_that_gain_little_alone_gain_much_together(name: str) -> None:
    together = program_of(name, COMBINED)
    found = score(name, output_of(together))
    assert 0.5 < way(name, found) < 1.0
    assert score(name, output_of(together)) == found
    for mechanism, option in COMBINED.items():
        assert way(name, score(name, output_of(program_of(name, {mechanism: option})))) <= 0.3


@pytest.mark.long
@pytest.mark.parametrize("name", TASKS)
def test_every_option_of_the_catalogue_applies_and_scores(name: str) -> None:
    path = TASKS[name].catalogue_path
    assert path is not None
    mechanisms = load_catalogue(path).mechanisms
    assert all(len(mechanism.options) >= 3 for mechanism in mechanisms)
    for column in range(max(len(mechanism.options) for mechanism in mechanisms)):
        edits = {each.name: each.options[min(column, len(each.options) - 1)] for each in mechanisms}
        program = program_of(name, edits)
        assert (program == TASKS[name].program) == (column == 0)
        assert math.isfinite(score(name, output_of(program)))
