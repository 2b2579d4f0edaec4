"""A candidate's outputs as JSON values, strictly, and only where they are small enough to be parsed.

Invariant: nothing is parsed before it is known to be shallow and to hold few values, because three bytes of text become
seventy bytes of objects. Nesting and values are counted by operations on the whole text, in time linear in its bytes.
Strings are separated from structure without one object for each.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, NoReturn

DEEPEST = 32
MOST_VALUES = 2_000_000
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


class Invalid(ValueError):
    """The candidate's outputs, or the score that follows from them, are not allowed. `raised` is the place of an
    evaluator's own error about them, if there is one."""

    def __init__(self, reason: str, raised: str = "") -> None:
        super().__init__(reason)
        self.raised = raised


def parse_all(texts: Sequence[bytes], most: int = MOST_VALUES) -> list[Any]:
    """The value of each text, without NaN, Infinity, numbers too large for a float, nesting beyond 32, or more than
    `most` values and names in all of them together. Raises Invalid."""
    left = most
    for text in texts:
        left -= _size(text, left, most)
    return [_parsed(text) for text in texts]


def parse(data: bytes) -> Any:
    """The value of one text."""
    return parse_all([data])[0]


def measure(data: bytes, most: int = MOST_VALUES) -> None:
    """Nothing is parsed. Raises Invalid for a text that is nested deeper than 32 or holds more than `most` values."""
    _size(data, most, most)


def _size(data: bytes, left: int, most: int) -> int:
    """How many values and names a JSON text holds, at most. Of a text that is not JSON, those of the part before its
    first mistake, which is as far as it will be parsed. Raises Invalid for more than `left`, and for nesting."""
    quoted = data
    if b"\\" in data:
        quoted = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if quoted.count(b'"') > 2 * left:
        _too_many(most)
    structure = b"".join(quoted.split(b'"')[::2]) if b'"' in quoted else quoted
    opened = structure.count(b"[") + structure.count(b"{")
    count = 1 + opened + structure.count(b",") + structure.count(b":")
    if count > left or structure.count(b"]") + structure.count(b"}") > left:
        _too_many(most)
    if opened > DEEPEST:
        _refuse_deep(structure.translate(_ONE_KIND, _NO_BRACKETS))
    return count


def _refuse_deep(brackets: bytes) -> None:
    """Take the innermost pairs away, level by level."""
    for _ in range(DEEPEST):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    if b"[]" in brackets or brackets.count(b"[") > DEEPEST:
        raise Invalid(f"the output is nested deeper than {DEEPEST}")


def _too_many(most: int) -> NoReturn:
    raise Invalid(f"the output has more than {most} values")


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse, parse_float=_finite)
    except ValueError as error:
        raise Invalid(f"the output is not JSON: {error}") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not allowed")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value
