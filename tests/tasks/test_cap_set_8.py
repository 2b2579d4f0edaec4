"""Cap sets: a set is checked line by line, and anything that is no set of different vectors has no score."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.implement.catalogue import MechanismEdit, apply_edit, load_catalogue
from pace_async.task import load_task, split_block
from tests.support.modules import load

TASK = load_task("cap_set_8")
EVALUATOR = load(TASK.folder / TASK.spec.evaluator, "cap_set_8_evaluator")
COMBINED = {"weight": 5, "negate": "pairs"}


def score(output: object) -> float:
    return EVALUATOR.score(EVALUATOR.instances(0), [output])["score"]


def program_of(edits: dict[str, Any]) -> str:
    before, block, after = split_block(TASK.program)
    for mechanism, option in edits.items():
        block = apply_edit(block, MechanismEdit(mechanism, option))
    return before + block + after


def set_of(edits: dict[str, Any]) -> Any:
    """The set of the seed program with these settings."""
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(program_of(edits), namespace)
    return namespace["cap_set"](EVALUATOR.instances(0)[0])


def cube() -> list[list[Any]]:
    """All 256 vectors of 0 and 1: a cap set, because three of them add up to zero only where they are equal."""
    return [list(vector) for vector in itertools.product((0, 1), repeat=8)]


def has_line(vectors: Sequence[Sequence[int]]) -> bool:
    """By every triple."""
    return any(all(sum(column) % 3 == 0 for column in zip(*t, strict=True)) for t in itertools.combinations(vectors, 3))


VECTOR = st.lists(st.integers(0, 2), min_size=8, max_size=8)


@settings(max_examples=60)
@given(st.lists(VECTOR, min_size=1, max_size=12), st.booleans())
def test_a_set_scores_its_size_unless_three_of_it_are_a_line(vectors: list[list[int]], closed: bool) -> None:
    if closed and len(vectors) > 1:  # a line through the first two, somewhere in the set
        vectors = [*vectors, [-(a + b) % 3 for a, b in zip(vectors[0], vectors[1], strict=True)]]
    twice = len({tuple(vector) for vector in vectors}) < len(vectors)
    if twice or has_line(vectors):
        with pytest.raises(ValueError, match=r"twice|add up to zero"):
            score(vectors)
    else:
        assert score(vectors) == len(vectors)


def test_known_sets_have_their_sizes() -> None:
    assert score([[0] * 8]) == 1
    assert score(cube()) == 256
    plane = [v for v in itertools.product(range(3), repeat=2) if v in {(0, 1), (1, 0), (1, 1), (0, 0)}]
    product = [list(a + b + c + d) for a, b, c, d in itertools.product(plane, repeat=4)]
    assert score(product) == 4**4


def test_one_vector_that_closes_a_line_is_found_wherever_it_stands() -> None:
    for place in (0, 100, 256):
        vectors = cube()
        vectors.insert(place, [2] * 8)
        with pytest.raises(ValueError, match="add up to zero"):
            score(vectors)


BREAK: dict[str, Callable[[list[Any]], object]] = {
    "a vector twice": lambda s: s.append(s[3]),
    "outside the field": lambda s: s[3].__setitem__(0, 3),
    "negative": lambda s: s[3].__setitem__(0, -1),
    "a float": lambda s: s[3].__setitem__(0, 1.0),
    "not a number": lambda s: s[3].__setitem__(0, float("nan")),
    "a truth value": lambda s: s[3].__setitem__(0, True),
    "a text": lambda s: s[3].__setitem__(0, "1"),
    "huge": lambda s: s[3].__setitem__(0, 10**5000),
    "a coordinate too few": lambda s: s[3].pop(),
    "a coordinate too many": lambda s: s[3].append(0),
    "a text as a vector": lambda s: s.__setitem__(3, "01010101"),
}


@pytest.mark.parametrize("how", BREAK)
def test_what_is_no_cap_set_is_refused(how: str) -> None:
    vectors = cube()
    BREAK[how](vectors)
    with pytest.raises(ValueError, match=r"vector|twice"):
        score(vectors)


@pytest.mark.parametrize("output", [None, [], "best", True, {"size": 512}, [[0] * 8] * 7000])
def test_an_output_of_another_kind_is_refused(output: object) -> None:
    with pytest.raises(ValueError, match=r"set"):
        score(output)


def test_mechanisms_that_gain_little_alone_gain_much_together() -> None:
    assert score(set_of({})) == 256
    assert score(set_of(COMBINED)) == 448
    for mechanism, option in COMBINED.items():
        assert score(set_of({mechanism: option})) - 256 <= 0.3 * (512 - 256)


@pytest.mark.long
def test_every_option_of_the_catalogue_applies_and_scores() -> None:
    assert TASK.catalogue_path is not None
    mechanisms = load_catalogue(TASK.catalogue_path).mechanisms
    assert all(len(mechanism.options) >= 3 for mechanism in mechanisms)
    for column in range(max(len(mechanism.options) for mechanism in mechanisms)):
        edits = {each.name: each.options[min(column, len(each.options) - 1)] for each in mechanisms}
        assert (program_of(edits) == TASK.program) == (column == 0)
        assert score(set_of(edits)) >= 1
