"""What the advisor answered, read strictly: the format asked for, or CandidateFault("unparsed").

An answer is never repaired or guessed at, by rule or by another model: the advisor gets the credit for what it wrote
itself. Only blank lines and white space at the ends of lines are forgiven. Pure; not the place where an idea's wording
is understood: that is the implementer's part.
"""

import re

from pace_async.advise.prompts import IDEAS_PER_PROPOSAL
from pace_async.errors import CandidateFault

MAX_SENTENCE = 2000
"""Longest hypothesis, reasoning or experiment description, in characters."""

_VERDICT = re.compile(r"Proposal ([1-9][0-9]{0,8}): (?:new|known ([1-9][0-9]{0,8}))", re.ASCII)
_CHOICE = re.compile(r"Idea ID: ([1-9][0-9]{0,8})", re.ASCII)


def parse_propose(text: str) -> tuple[tuple[str, str], ...]:
    """((hypothesis, reasoning), ...), one pair for each of the three ideas asked for."""
    lines = _lines(text)
    if len(lines) != 3 * IDEAS_PER_PROPOSAL:
        raise _unparsed(f"expected {3 * IDEAS_PER_PROPOSAL} lines, got {len(lines)}")
    pairs: list[tuple[str, str]] = []
    for index in range(IDEAS_PER_PROPOSAL):
        heading, hypothesis, reasoning = lines[3 * index : 3 * index + 3]
        if heading != f"Idea {index + 1}":
            raise _unparsed(f"expected 'Idea {index + 1}', got {_short(heading)}")
        pairs.append((_field(hypothesis, "Hypothesis"), _field(reasoning, "Reasoning")))
    return tuple(pairs)


def parse_assess(text: str, n: int, pool_size: int) -> tuple[int | None, ...]:
    """For each of n proposals: None if it is called new, or the place, from 1 to `pool_size`, of the idea that it is
    said to repeat."""
    lines = _lines(text)
    if len(lines) != n:
        raise _unparsed(f"expected {n} lines, got {len(lines)}")
    verdicts: list[int | None] = []
    for number, line in enumerate(lines, start=1):
        match = _VERDICT.fullmatch(line)
        if match is None or int(match[1]) != number:
            raise _unparsed(f"expected a verdict on proposal {number}, got {_short(line)}")
        known = int(match[2]) if match[2] else None
        if known is not None and known > pool_size:
            raise _unparsed(f"there is no idea {known} in the pool")
        verdicts.append(known)
    return tuple(verdicts)


def parse_select(text: str, pool_size: int) -> tuple[int, str]:
    """(place of the idea chosen, from 1 to `pool_size`; description of the experiment)."""
    lines = _lines(text)
    if len(lines) != 2:
        raise _unparsed(f"expected 2 lines, got {len(lines)}")
    match = _CHOICE.fullmatch(lines[0])
    if match is None:
        raise _unparsed(f"expected an idea's number, got {_short(lines[0])}")
    if int(match[1]) > pool_size:
        raise _unparsed(f"there is no idea {int(match[1])} in the pool")
    return int(match[1]), _field(lines[1], "Experiment description")


def _lines(text: str) -> list[str]:
    """Lines that are not blank, ends trimmed. Only the line feed ends a line."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def _field(line: str, name: str) -> str:
    prefix = f"{name}: "
    value = line.removeprefix(prefix).strip()
    if not line.startswith(prefix) or not value:
        raise _unparsed(f"expected '{prefix}...', got {_short(line)}")
    if len(value) > MAX_SENTENCE:
        raise _unparsed(f"{name} is longer than {MAX_SENTENCE} characters")
    if not value.isprintable():
        raise _unparsed(f"{name} holds characters that cannot be printed")
    return value


def _short(line: str) -> str:
    return repr(line if len(line) <= 40 else line[:37] + "...")


def _unparsed(reason: str) -> CandidateFault:
    return CandidateFault("unparsed", reason)
