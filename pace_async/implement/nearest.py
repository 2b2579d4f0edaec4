"""Lines that an edit may have meant whose SEARCH stands nowhere in the evolve block, for the model to copy. Pure.

Each line of the SEARCH votes for where the edit would begin, by the lines of the block that it is like. Shown are the
lines at the best place, never more than bounds allow: an answer and a block may be of any size.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rapidfuzz import fuzz, process

MOST_EDITS = 3
MOST_LINES = 30
"""Lines of one SEARCH that are looked for and shown."""
MOST_BLOCK_LINES = 20_000
LONGEST_COMPARED = 200
"""Characters of a line that are compared."""
ALIKE = 60.0
"""Per cent of likeness from which two lines are worth a vote."""
ROOM = 3_000
"""Characters of all lines that are shown."""


def nearest_lines(answer: str, block: str, marks: tuple[str, str], first: int = 1) -> str:
    """For each SEARCH of the answer that stands nowhere in the block: the lines that are most like it, under their
    numbers. Empty if nothing is like it. `marks` are the lines before and after a SEARCH. `first` is the number of the
    block's first line in its program."""
    lines = block.split("\n")[:MOST_BLOCK_LINES]
    compared = [line.strip()[:LONGEST_COMPARED] for line in lines]
    parts: list[str] = []
    room = ROOM
    for search in _searches(answer, marks):
        if len(parts) == MOST_EDITS:
            break
        if _stands(search, lines):
            continue
        begin = _place(search[:MOST_LINES], compared)
        if begin is None:
            continue
        end = min(len(lines), begin + min(len(search), MOST_LINES))
        excerpt = "\n".join(lines[begin:end])
        if len(excerpt) > room:
            break
        room -= len(excerpt)
        parts.append(f"Lines {first + begin} to {first + end - 1} of the program:\n{excerpt}")
    return "\n\n".join(parts)


def _searches(answer: str, marks: tuple[str, str]) -> Iterator[list[str]]:
    """The lines of each SEARCH that is complete."""
    search: list[str] | None = None
    for line in answer.replace("\r\n", "\n").split("\n"):
        mark = line.rstrip()
        if mark == marks[0]:
            search = []
        elif mark == marks[1] and search is not None:
            if any(part.strip() for part in search):
                yield search
            search = None
        elif search is not None:
            search.append(line)


def _stands(search: Sequence[str], lines: Sequence[str]) -> bool:
    size, first = len(search), search[0]
    return any(line == first and lines[i : i + size] == search for i, line in enumerate(lines))


def _place(search: Sequence[str], lines: Sequence[str]) -> int | None:
    """Where the lines of `search` would begin, by the votes of each. None if no line is like any."""
    votes: defaultdict[int, float] = defaultdict(float)
    for number, line in enumerate(search):
        needle = line.strip()[:LONGEST_COMPARED]
        if not needle:
            continue
        for _, likeness, place in process.extract(needle, lines, scorer=fuzz.ratio, limit=5, score_cutoff=ALIKE):
            votes[max(0, place - number)] += likeness * min(len(needle), 40)
    return min(votes, key=lambda place: (-votes[place], place)) if votes else None
