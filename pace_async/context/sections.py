"""A context as texts by section, fitted into a budget of characters. Pure.

Each section has levels, from all that it could show down to nothing, and a share of the budget that it never exceeds.
The rule of what goes first:

1. A section that is larger than its share of the budget shows less. The task and the parent have no share. Without a
   parent, as in the question to the writer of notes, nothing has.
2. Where all of it together has less than FILLED of the budget, the texts of MORE are as long as that allows.
3. While the whole is too large, the sections of ORDER show less, one after the other until it is empty.
4. Only then the middle of the task's text is cut, and last the middle of the parent's program.

A parent of several files has levels: it shows fewer of them whole, first to have a share of the budget, and again
before anything is cut.

Invariants: the texts together never have more characters than the budget. Nothing of the parent is cut while any
other section shows something that could go.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

NOTE = "[{} characters of the middle are left out]"
SHARES: Mapping[str, float] = {
    "limits": 0.15,
    "measured": 0.1,
    "results": 0.0265,
    "earlier": 0.03,
    "ideas": 0.012,
    "notes": 0.03,
    "note": 0.03,
    "lineage": 0.015,
    "practice": 0.045,
    "failed": 0.015,
    "under_way": 0.025,
    "best": 0.03,
    "other": 0.0375,
    "named": 0.5,
}
FILES_SHARE = 0.6
"""Of the parent, where it has levels: it has several files then."""
FILLED = 0.235
"""Of the budget, for a question whose sections do not need their shares."""
MORE = (("best",), ("results", "ideas"))
"""What then shows more: first the best program, and then the others in turn."""
LEAST = 56_000
"""Characters from which shares are counted where the budget has fewer: those of the usual one."""
ORDER = (
    "practice",
    "other",
    "under_way",
    "best",
    "lineage",
    "failed",
    "earlier",
    "ideas",
    "notes",
    "named",
    "measured",
    "results",
    "note",
)
"""What shows less first."""
CUT = ("task", "program")
"""What loses its middle, in this order, once all else is gone."""

Levels = Callable[[int], str | None]
"""The text of a section at a level, 0 the whole. None beyond the last one. Each is shorter than the one before."""


@dataclass(frozen=True, slots=True)
class FittedSections:
    """Texts by section. `cut`: a part of the task or the parent is missing."""

    texts: Mapping[str, str]
    cut: bool

    @property
    def size(self) -> int:
        """Characters in all."""
        return sum(map(len, self.texts.values()))


def fit_sections(sections: Mapping[str, Levels], budget: int) -> FittedSections:
    """The sections within `budget` characters."""
    whole, texts, levels = max(LEAST, budget), dict[str, str](), dict[str, int]()
    for name, levels_of in sections.items():
        limit = whole * SHARES[name] if name in SHARES and "program" in sections else None
        levels[name] = 0 if limit is None else _first_within(levels_of, limit)
        texts[name] = levels_of(levels[name]) or ""
        if name == "program":
            _shorten(levels_of, texts, levels, int(budget * FILES_SHARE))
    total = sum(map(len, texts.values()))
    total = _fill(sections, texts, levels, total, min(budget, int(whole * FILLED)))
    for name in ORDER:
        while total > budget and texts.get(name):
            total -= len(texts[name])
            _less(sections, texts, levels, name)
            total += len(texts[name])
    if total > budget and "program" in texts:
        total -= len(texts["program"])
        _shorten(sections["program"], texts, levels, max(0, budget - total))
        total += len(texts["program"])
    cut = False
    for name in CUT:
        if total > budget and name in texts:
            total -= len(texts[name])
            texts[name] = without_middle(texts[name], max(0, budget - total))
            total += len(texts[name])
            cut = True
    return FittedSections(texts, cut)


def without_middle(text: str, longest: int) -> str:
    """The text, without its middle if it has more than `longest` characters. A note says so where it fits."""
    if len(text) <= longest:
        return text
    note = NOTE.format(len(text))
    left = longest - len(note) - 2
    if left <= 0:
        return text[:longest]
    start = left - left // 2
    end = left // 2
    note = NOTE.format(len(text) - start - end)
    return f"{text[:start]}\n{note}\n{text[-end:] if end else ''}"


def _first_within(levels_of: Levels, limit: float) -> int:
    """The first level whose text has at most `limit` characters. Few are made: doubled, then halved, as each is
    shorter than the one before."""

    def fits(level: int) -> bool:
        return len(levels_of(level) or "") <= limit

    if fits(0):
        return 0
    too_long, enough = 0, 1
    while not fits(enough):
        too_long, enough = enough, 2 * enough
    while enough - too_long > 1:
        middle = (too_long + enough) // 2
        too_long, enough = (too_long, middle) if fits(middle) else (middle, enough)
    return enough


def _shorten(program: Levels, texts: dict[str, str], levels: dict[str, int], room: int) -> None:
    """Show less of the parent's files, until they fit or its last level is reached."""
    while len(texts["program"]) > room and (less := program(levels["program"] + 1)) is not None:
        levels["program"] += 1
        texts["program"] = less


def _less(sections: Mapping[str, Levels], texts: dict[str, str], levels: dict[str, int], name: str) -> None:
    levels[name] += 1
    texts[name] = sections[name](levels[name]) or ""


def _fill(sections: Mapping[str, Levels], texts: dict[str, str], levels: dict[str, int], total: int, room: int) -> int:
    """Let the sections of MORE show more, those of a group one level each in turn, while all texts together have at
    most `room` characters. Returns the characters that they have then."""
    for group in MORE:
        growing = [name for name in group if name in sections]
        while growing:
            for name in tuple(growing):
                longer = sections[name](levels[name] - 1) if total < room and levels[name] else None
                if longer is None or total - len(texts[name]) + len(longer) > room:
                    growing.remove(name)
                    continue
                total += len(longer) - len(texts[name])
                texts[name], levels[name] = longer, levels[name] - 1
    return total
