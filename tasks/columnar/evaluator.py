"""Trusted scorer of pipelines that compress the columns of a hidden table.

A program names a pipeline for each column. The scorer draws the table, encodes each column to one block of bytes,
decodes the block by itself and compares, before a byte counts. So a program has no part in what is counted. Blocks are
remembered, because most candidates change one pipeline. Never shown to a candidate.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from columnar_coders import CODERS, LAYOUTS
from columnar_steps import MAPS, PREDICTORS
from columnar_table import NAMES, ROWS, table

STEPS = {**PREDICTORS, **MAPS}
MOST_STEPS = 4
LONGEST = 200
"""Most characters of a pipeline."""
RAW = 4 * ROWS * len(NAMES)
"""Bytes of the table as it is."""


def instances(seed: int) -> list[dict[str, Any]]:
    """One instance, the same for every seed: the names of the columns. The table follows from the seed and is never
    shown."""
    return [{"columns": list(NAMES), "rows": ROWS}]


def score(instances: Sequence[object], outputs: Sequence[object], seed: int) -> dict[str, float]:
    """{"score": log2(bytes of the table / bytes of all blocks), "bytes": those of all blocks}. Raises ValueError for
    what is no pipeline for each column."""
    if len(outputs) != 1 or len(instances) != 1:
        raise ValueError(f"one answer was asked for and {len(outputs)} came")
    pipelines = outputs[0]
    if not isinstance(pipelines, dict) or set(pipelines) != set(NAMES):
        raise ValueError(f"the answer must have a pipeline for each of the {len(NAMES)} columns, and nothing else")
    words = {name: words_of(name, pipelines[name]) for name in NAMES}
    coded = sum(coded_bytes(seed, name, words[name]) for name in NAMES)
    return {"score": math.log2(RAW / coded), "bytes": coded}


def words_of(name: str, pipeline: object) -> tuple[str, ...]:
    """Steps, a layout and a coder. Raises ValueError."""
    if type(pipeline) is not str or len(pipeline) > LONGEST:
        raise ValueError(f"the pipeline of {name} must be a text of at most {LONGEST} characters")
    *steps, layout, coder = words = ("", "", *pipeline.split())
    steps = steps[2:]
    if len(words) < 4 or len(steps) > MOST_STEPS:
        raise ValueError(f"the pipeline of {name} must be at most {MOST_STEPS} steps, a layout and a coder")
    for word, known, what in (*((step, STEPS, "step") for step in steps), (layout, LAYOUTS, "layout")):
        if word not in known:
            raise ValueError(f"the pipeline of {name} names a {what} that is none of {', '.join(known)}")
    if coder not in CODERS:
        raise ValueError(f"the pipeline of {name} names a coder that is none of {', '.join(CODERS)}")
    return words[2:]


@lru_cache(maxsize=1 << 17)
def coded_bytes(seed: int, name: str, words: tuple[str, ...]) -> int:
    """Bytes of one column's block. Raises AssertionError if the block does not decode to the column."""
    column = table(seed)[name]
    block = encoded(column, words)
    if not np.array_equal(decoded(block), column):
        raise AssertionError(f"{' '.join(words)} loses numbers of {name}")
    return len(block)


def encoded(column: np.ndarray, words: Sequence[str]) -> bytes:
    """The block of a column: which pipeline, what its stages need, and the coder's bytes."""
    *steps, layout, coder = words
    chosen = [_INDEX[step] for step in steps]
    head = bytes([len(steps), *chosen, list(LAYOUTS).index(layout), list(CODERS).index(coder)])
    for step in steps:
        column, beside = STEPS[step].encode(column)
        head += _written(beside, STEPS[step].needs)
    data, beside = CODERS[coder].encode(LAYOUTS[layout].encode(column))
    return head + _written([len(column), *beside], 1 + CODERS[coder].needs) + data


def decoded(block: bytes) -> np.ndarray:
    """The column, from nothing but its block."""
    count = block[0]
    steps = [_STEP_LIST[number] for number in block[1 : 1 + count]]
    layout, coder = list(LAYOUTS.values())[block[1 + count]], list(CODERS.values())[block[2 + count]]
    place = 3 + count
    needed: list[list[int]] = []
    for step in steps:
        beside, place = _read(block, place, step.needs)
        needed.append(beside)
    (length, *beside), place = _read(block, place, 1 + coder.needs)
    column = layout.decode(coder.decode(block[place:], beside, layout.kind), length).astype(np.uint32)
    for step, beside in zip(reversed(steps), reversed(needed), strict=True):
        column = step.decode(column, beside)
    return column


_STEP_LIST = list(STEPS.values())
_INDEX = {name: number for number, name in enumerate(STEPS)}


def _written(numbers: Sequence[int], needs: int | None) -> bytes:
    """Numbers of any size in groups of seven bits, the lowest first; their count before them where it varies."""
    out = bytearray()
    for number in numbers if needs is not None else [len(numbers), *numbers]:
        rest = number
        while rest > 127:
            out.append(rest & 127 | 128)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def _read(block: bytes, place: int, needs: int | None) -> tuple[list[int], int]:
    """Numbers that _written wrote, and the place after them."""
    if needs is None:
        (needs,), place = _read(block, place, 1)
    numbers: list[int] = []
    for _ in range(needs):
        number = shift = 0
        while block[place] > 127:
            number |= (block[place] & 127) << shift
            shift, place = shift + 7, place + 1
        numbers.append(number | block[place] << shift)
        place += 1
    return numbers, place
