"""Slices of a divided tensor: written into a receipt and read back, and whether all of them cover it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.slices import Slice, covered, from_receipt, in_receipt, whole

DIGEST = "8b1a9953c4611296a827abf8c47804d7"
SIZES = st.integers(1, 12)


@st.composite
def divided(draw: st.DrawFn) -> tuple[tuple[int, int], list[Slice]]:
    """A shape, cut into bands of rows and each band into ranges of columns of its own."""
    rows, columns = draw(SIZES), draw(SIZES)
    slices: list[Slice] = []
    for top, bottom in pairwise(cuts(draw, rows)):
        slices += [Slice(top, bottom, left, right) for left, right in pairwise(cuts(draw, columns))]
    return (rows, columns), draw(st.permutations(slices))


def cuts(draw: st.DrawFn, size: int) -> list[int]:
    return sorted({0, size, *draw(st.lists(st.integers(0, size), max_size=3))})


@given(divided())
def test_a_tensor_is_covered_by_all_its_slices_and_by_no_fewer(one: tuple[tuple[int, int], list[Slice]]) -> None:
    shape, slices = one
    assert covered(shape, slices)
    assert covered(shape, [*slices, whole(shape), slices[0]]), "ranks may hold the same slice"
    for left_out in slices:
        assert not covered(shape, [other for other in slices if other != left_out])


@given(st.lists(st.builds(Slice, SIZES, SIZES, SIZES, SIZES), max_size=4).map(tuple))
def test_a_receipt_says_which_slices_a_rank_holds(slices: tuple[Slice, ...]) -> None:
    assert from_receipt(in_receipt(DIGEST, slices)) == (DIGEST, slices or None)


@pytest.mark.parametrize("entry", ["", f"{DIGEST} ", f"{DIGEST} 0:1", f"{DIGEST} 0:1,0:1,", f"{DIGEST} 0:1,0:-1"])
def test_an_entry_of_another_form_is_the_digest_of_no_tensor(entry: str) -> None:
    assert from_receipt(entry) == (entry, None)


def test_tensors_without_columns_and_without_rows_have_one() -> None:
    assert covered((6,), [Slice(0, 3, 0, 1), Slice(3, 6, 0, 1)])
    assert not covered((6,), [Slice(0, 3, 0, 1), Slice(4, 6, 0, 1)])
    assert covered((), [Slice(0, 1, 0, 1)])
    assert not covered((4, 2, 3), [Slice(0, 4, 0, 1)])
