"""Online bin packing: a table is packed by the scorer, items depend on every bit of the seed, nothing else is
scored."""

import math
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.implement.catalogue import MechanismEdit, apply_edit, load_catalogue
from pace_async.task import load_task, split_block
from tests.support.modules import load

TASK = load_task("online_bin_packing")
EVALUATOR = load(TASK.folder / TASK.spec.evaluator, "online_bin_packing_evaluator")
SIDE = 101
COMBINED = {"snug": 1, "awkward": 18, "beyond": "widest"}


def best_fit() -> list[list[Any]]:
    return [[-level for level in range(SIDE)] for _ in range(SIDE)]


def score(output: object, seed: int = 0) -> float:
    return EVALUATOR.score(EVALUATOR.instances(seed), [output], seed)["score"]


def program_of(edits: dict[str, Any]) -> str:
    before, block, after = split_block(TASK.program)
    for mechanism, option in edits.items():
        block = apply_edit(block, MechanismEdit(mechanism, option))
    return before + block + after


def table_of(edits: dict[str, Any]) -> Any:
    """The table of the seed program with these settings."""
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(program_of(edits), namespace)
    return namespace["rule"](EVALUATOR.instances(0)[0])


def bins_one_by_one(items: Sequence[int], table: Sequence[Sequence[float]]) -> int:
    """Bins used, with every bin kept by itself."""
    left: list[int] = []
    for size in items:
        choices = [(-table[size][level], level, i) for i, level in enumerate(left) if level >= size]
        _, level, i = min([*choices, (-table[size][100], 100, len(left))])
        if level == 100:
            left.append(100)
        left[i] = level - size
    return len(left)


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=60),
    st.lists(st.one_of(st.integers(-3, 3), st.floats(-1e300, 1e300)), min_size=7, max_size=7),
)
def test_bins_are_those_of_a_packing_that_keeps_every_bin(items: list[int], weights: list[float]) -> None:
    table = [[weights[(3 * size + level) % 7] for level in range(SIDE)] for size in range(SIDE)]
    bound = math.ceil(sum(items) / 100)
    expected = 100 * (bins_one_by_one(items, table) - bound) / bound
    assert EVALUATOR.excess(items, EVALUATOR.preferences(table)) == pytest.approx(expected, abs=1e-12)


def test_small_sequences_are_packed_as_by_hand() -> None:
    order = EVALUATOR.preferences(best_fit())
    assert EVALUATOR.excess([60, 60, 40, 40], order) == 0.0
    assert EVALUATOR.excess([60, 60, 60, 20], order) == pytest.approx(50.0)
    widest = EVALUATOR.preferences([list(range(SIDE))] * SIDE)
    assert EVALUATOR.excess([10, 10], widest) == pytest.approx(100.0)


def test_the_seed_program_is_best_fit() -> None:
    assert score(table_of({})) == score(best_fit())
    assert score(table_of({})) == pytest.approx(4.055, abs=1e-3)


def test_levels_that_cannot_take_the_item_do_not_count() -> None:
    overfull = [[10**9 if level < size else -level for level in range(SIDE)] for size in range(SIDE)]
    assert score(overfull) == score(best_fit())


def test_whole_numbers_and_floats_are_compared_exactly() -> None:
    close = [[2**60 - level for level in range(SIDE)] for _ in range(SIDE)]
    assert score(close) == score(best_fit())


def test_items_depend_on_every_bit_of_the_seed_and_no_instance_reveals_it() -> None:
    seed = (1 << 128) + secrets.randbits(128)
    first = EVALUATOR.sequences(seed)
    assert first == EVALUATOR.sequences(seed)
    assert all(first != EVALUATOR.sequences(seed ^ (1 << bit)) for bit in (0, 31, 32, 64, 96, 127))
    assert EVALUATOR.instances(seed) == EVALUATOR.instances(0)
    assert all(1 <= size <= 100 for sequence in first for size in sequence)


BREAK: dict[str, Callable[[list[Any]], object]] = {
    "a missing row": lambda t: t.pop(),
    "a row too many": lambda t: t.append(t[0]),
    "a missing level": lambda t: t[7].pop(),
    "not a number": lambda t: t[7].__setitem__(50, math.nan),
    "infinite": lambda t: t[7].__setitem__(50, -math.inf),
    "very large": lambda t: t[7].__setitem__(50, 10**5000),
    "a truth value": lambda t: t[7].__setitem__(50, True),
    "a text": lambda t: t[7].__setitem__(50, "1"),
    "nothing": lambda t: t[100].__setitem__(100, None),
    "no row": lambda t: t.__setitem__(7, 1.0),
}


@pytest.mark.parametrize("how", BREAK)
def test_what_is_no_table_is_refused(how: str) -> None:
    table = best_fit()
    BREAK[how](table)
    with pytest.raises(ValueError, match=r"table|row|priority"):
        score(table)


@pytest.mark.parametrize("output", [None, [], "best", True, {"table": best_fit()}])
def test_an_output_of_another_kind_is_refused(output: object) -> None:
    with pytest.raises(ValueError, match="table"):
        score(output)


def way(found: float) -> float:
    """Share of the way from the seed program's score to the best known."""
    begun, target = score(best_fit()), TASK.spec.target
    assert target is not None
    return (begun - found) / (begun - target)


def test_mechanisms_that_gain_little_alone_gain_much_together() -> None:
    assert way(score(table_of(COMBINED))) > 0.9
    assert way(score(table_of(COMBINED), seed=2**128)) > 0.8
    for mechanism, option in COMBINED.items():
        assert way(score(table_of({mechanism: option}))) <= 0.3


def test_every_option_of_the_catalogue_applies_and_scores() -> None:
    assert TASK.catalogue_path is not None
    mechanisms = load_catalogue(TASK.catalogue_path).mechanisms
    assert all(len(mechanism.options) >= 3 for mechanism in mechanisms)
    for column in range(max(len(mechanism.options) for mechanism in mechanisms)):
        edits = {each.name: each.options[min(column, len(each.options) - 1)] for each in mechanisms}
        assert (program_of(edits) == TASK.program) == (column == 0)
        assert math.isfinite(score(table_of(edits)))
