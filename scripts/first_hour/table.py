"""The table of the first hour: one row for each figure, and its place in docs/gpu.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
BEGIN, END = "<!-- table of the first hour -->\n", "<!-- end of the table -->\n"
NOT_MEASURED = "not measured"
NO_CARD = "skipped: no card"
ONE_CARD = "skipped: one card, and two are needed"
TWO_CARDS = "skipped: learner and engine are not on one card"
NOT_CARRIED = "skipped: it carries all weights to vLLM"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, or why there is none."""

    part: str
    what: str
    result: str


WHAT = (
    ("doctor", "`pace doctor` finds all that a run needs"),
    ("plan", "the run fits, by `pace plan`"),
    ("step", "memory of a real step, measured over counted"),
    ("step", "tokens a second that a step trains"),
    ("push", "seconds of a push by file, and of them paused"),
    ("push", "seconds of a push over NCCL, and of them paused"),
    ("push", "seconds of a push from the learner's memory (ipc), and of them paused"),
    ("probe", "k3 of engine and learner at version 0: median, most"),
    ("serve", "tokens a second of the engine"),
    ("modes", "seconds of a run: `--async`, `--sync`, and their ratio"),
)
"""Every row, by part."""


def rows_of(part: str, *results: str) -> list[Row]:
    """The rows of a part with these results. One result stands for all of them."""
    names = [what for name, what in WHAT if name == part]
    return [Row(part, what, results[min(at, len(results) - 1)]) for at, what in enumerate(names)]


def in_markdown(rows: Sequence[Row]) -> str:
    lines = ["| part | what | result |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {row.part} | {row.what} | {row.result} |" for row in rows)]) + "\n"


def with_table(page: str, heading: str, rows: Sequence[Row]) -> str:
    """The page with the table in its place, below a line that says where it comes from. Raises ValueError if it has no
    place for it."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no place for the table")
    return f"{before}{BEGIN}{heading}\n\n{in_markdown(rows)}{END}{after}"
