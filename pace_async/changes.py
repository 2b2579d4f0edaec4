"""Which lines of one text became which lines of another, at a bounded cost.

`difflib` searches the longest common run again and again, which takes hours for a text of a few thousand equal lines.
The steps that it may take are therefore counted first. Where they are too many, all lines between the common beginning
and the common end count as replaced. That still leads from one text to the other, though not by the shortest way.
"""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

Change = tuple[str, int, int, int, int]
"""As of `SequenceMatcher.get_opcodes`: (equal, replace, delete or insert, start and end in each text)."""


def changes(a: Sequence[str], b: Sequence[str], most: int) -> list[Change]:
    """From `a` to `b`, both covered without a gap. `most` bounds the steps of the comparison."""
    if steps(a, b) <= most:
        return list(SequenceMatcher(None, a, b, autojunk=False).get_opcodes())
    shorter = min(len(a), len(b))
    first = next((place for place in range(shorter) if a[place] != b[place]), shorter)
    last = next((place for place in range(shorter - first) if a[-1 - place] != b[-1 - place]), shorter - first)
    middle = ("replace", first, len(a) - last, first, len(b) - last)
    if first == len(a) - last or first == len(b) - last:
        middle = ("insert" if first == len(a) - last else "delete", *middle[1:])
    ends: list[Change] = [("equal", 0, first, 0, first), middle]
    ends.append(("equal", len(a) - last, len(a), len(b) - last, len(b)))
    return [change for change in ends if change[1] < change[2] or change[3] < change[4]]


def steps(a: Sequence[str], b: Sequence[str]) -> int:
    """Upper bound on how often `SequenceMatcher` looks at a pair of equal lines: each pair once for every run that it
    finds. It finds no more runs than the shorter text has lines."""
    there = Counter(b)
    return sum(there[line] for line in a) * min(len(a), len(b))
