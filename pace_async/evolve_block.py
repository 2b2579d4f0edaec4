"""The part of a program that may change: the lines between two marks, each alone on its line.

Looks at the marks, not at every line: a text may have hundreds of thousands.
"""

from collections.abc import Iterator
from functools import lru_cache

BLOCK_START = "# EVOLVE-BLOCK-START"
BLOCK_END = "# EVOLVE-BLOCK-END"
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # as `str.splitlines` has them


@lru_cache(maxsize=64)
def split_block(program: str) -> tuple[str, str, str]:
    """(text up to and with the start marker's line, the evolve block, the rest). Raises ValueError unless there is
    exactly one block, start before end."""
    starts, ends = _two(program, BLOCK_START), _two(program, BLOCK_END)
    if len(starts) != 1 or len(ends) != 1 or ends[0][0] < starts[0][0]:
        raise ValueError(f"the program needs exactly one {BLOCK_START} … {BLOCK_END}")
    start, end = starts[0][1], ends[0][0]
    return program[:start], program[start:end], program[end:]


def _two(program: str, mark: str) -> list[tuple[int, int]]:
    """Where the lines that are `mark` begin and end, at most two of them."""
    found: list[tuple[int, int]] = []
    for line in _lines(program, mark):
        found.append(line)
        if len(found) == 2:
            break
    return found


def _lines(program: str, mark: str) -> Iterator[tuple[int, int]]:
    at = program.find(mark)
    while at >= 0:
        begin, end = at, at + len(mark)
        while begin > 0 and program[begin - 1] not in _LINE_ENDS and program[begin - 1].isspace():
            begin -= 1
        while end < len(program) and program[end] not in _LINE_ENDS and program[end].isspace():
            end += 1
        if (begin == 0 or program[begin - 1] in _LINE_ENDS) and (end == len(program) or program[end] in _LINE_ENDS):
            yield begin, end + (2 if program[end : end + 2] == "\r\n" else 1 if end < len(program) else 0)
        at = program.find(mark, end)
