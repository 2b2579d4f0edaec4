"""Slices: the parts of a tensor that one rank of a divided engine holds.

A rank writes them into its receipt after the digest of the whole tensor, one for each part of a fused layer. A digest
alone means that the rank holds the whole tensor. So a receipt of one rank never passes for that of all ranks.

    8b1a9953c4611296a827abf8c47804d7 64:128,0:32     rows from 64 up to 128, columns from 0 up to 32

Invariant: a version is proven only if the slices of all ranks together cover every tensor. Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_SLICE = re.compile(r"(\d+):(\d+),(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows from `row` up to `end_row`, and columns in the same way. A tensor of one dimension has one column. Further
    dimensions are always whole."""

    row: int
    end_row: int
    column: int
    end_column: int


def in_receipt(digest: str, slices: Sequence[Slice]) -> str:
    """A tensor's entry in a receipt. No slices: the whole tensor."""
    parts = (f"{region.row}:{region.end_row},{region.column}:{region.end_column}" for region in slices)
    return " ".join((digest, *parts))


def from_receipt(entry: str) -> tuple[str, tuple[Slice, ...] | None]:
    """The digest and the slices of an entry, None for the whole tensor. A text of another form is its own digest, which
    equals no tensor's."""
    digest, *parts = entry.split(" ")
    matches = [_SLICE.fullmatch(part) for part in parts]
    slices = tuple(Slice(*map(int, match.groups())) for match in matches if match is not None)
    if not parts or len(slices) < len(parts):
        return entry, None
    return digest, slices


def covered(shape: Sequence[int], slices: Sequence[Slice]) -> bool:
    """Whether the slices together cover a tensor of this shape."""
    rows, columns = grid_of(shape)
    edges = sorted({0, rows, *(edge for region in slices for edge in (region.row, region.end_row) if 0 < edge < rows)})
    for top, bottom in pairwise(edges):
        band = sorted(
            (region.column, region.end_column) for region in slices if region.row <= top and bottom <= region.end_row
        )
        end = 0
        for first, last in band:
            if first <= end:
                end = max(end, last)
        if end < columns:
            return False
    return True


def whole(shape: Sequence[int]) -> Slice:
    """The slice that is the whole tensor."""
    rows, columns = grid_of(shape)
    return Slice(0, rows, 0, columns)


def grid_of(shape: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a tensor of this shape."""
    return (shape[0] if shape else 1), (shape[1] if len(shape) > 1 else 1)
