"""The text of each section, at each level of detail. Pure.

Code stands between fences that are longer than any inside it. Other text of models and programs is on one line, after
words of our own, so that neither can imitate a heading.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import unified_diff
from functools import lru_cache
from itertools import groupby

from pace_async.context.figures import digits_for, gain_text, score_text
from pace_async.context.notes_page import LONGEST, shorter
from pace_async.context.sections import Levels, without_middle
from pace_async.context.value import Context, Row, Surroundings
from pace_async.events import NotesPage
from pace_async.programs.text import steps
from pace_async.search.results import TriedOut, counted
from pace_async.search.state import Member
from pace_async.task import Task, TaskSpec

MOST_STEPS = 300_000
"""Step limit of a comparison in the event loop."""
AROUND = 1
"""Unchanged lines shown around a change."""
REMOVED = 3
"""Lines shown of a longer run of removed ones. The parent has them all."""
ROWS: tuple[tuple[int, int, int, int], ...] = (
    *((8, 8, 260, 260), (8, 8, 200, 120), (8, 8, 150, 80), (8, 8, 110, 70)),
    *((6, 6, 110, 70), (5, 4, 100, 70), (3, 2, 80, 70), (1, 0, 70, 70)),
)
"""Levels of the table of results: best ones, recent ones, characters of an experiment among the FIRST of each, and of
the others."""
LISTED: tuple[tuple[int, int, int], ...] = (
    *((12, 300, 300), (12, 200, 120), (10, 160, 110), (8, 150, 90), (6, 130, 90), (4, 100, 80), (2, 80, 60)),
)
"""Levels of a list: its items, characters of each of the FIRST, and of the others."""
BRIEF = 120
"""Characters of an experiment outside the table."""
USUAL = 4
"""The level of the table in the middle of a run."""
FIRST = 3
BESIDE: tuple[int | None, ...] = (None, 2000, 1000)
"""Levels of a program beside the parent: its characters, None for all."""
_BULLET = re.compile(r"(?:[-*+]|\d{1,2}[.)])\s+")
_NEEDS = "needs:"
PAGES = (LONGEST, 900, 500, 250)
"""Levels of the page of notes: its characters."""


def one_line(text: str, longest: int | None = None) -> str:
    """The text with each run of white space replaced by one space, cut at `longest` characters."""
    line = " ".join(text.split())
    return line if longest is None or len(line) <= longest else f"{line[: longest - 3]}..."


def gist(experiment: str, longest: int) -> str:
    """An experiment on one line, without the numbers of its steps, and without what its author was shown."""
    return one_line(_plain(experiment), longest)


@lru_cache(maxsize=4096)
def _plain(experiment: str) -> str:
    lines = (line.strip() for line in experiment.replace("`", "").split("\n"))
    return " ".join(_BULLET.sub("", line, count=1) for line in lines if not line.lower().startswith(_NEEDS))


def fence_for(text: str) -> str:
    """Backticks: at least three, and more than any run of them in `text`."""
    return "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))


def fenced(text: str, language: str = "") -> str:
    """The text as a code block that it cannot end."""
    fence = fence_for(text)
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def task_text(spec: TaskSpec) -> str:
    """The task in the words of its author."""
    goal = "Higher is better." if spec.direction == "maximize" else "Lower is better."
    return f"{spec.background.strip()}\n\n{spec.coding_requirements.strip()}\n\n{goal}"


def limits_text(spec: TaskSpec, around: Surroundings) -> str:
    """How a program is called, and what it has."""
    processors = spec.cpus or (1 if not spec.is_command else around.processors)
    has = [f"{spec.timeout_s:g} s and {spec.memory_mb} MiB for all of its evaluation"]
    if processors is not None:
        has.append(f"{processors} processor{'s' if processors > 1 else ''}")
    if spec.gpus:
        has.append(f"{spec.gpus:g} GPU")
    has.append("no network")
    lines = [f"{contract(spec)}. It has {', '.join(has)}."]
    if around.packages and spec.language == "python" and not spec.environment.prefix:
        lines.append(f"Besides the standard library it can import {', '.join(around.packages)}.")
    return "\n".join(lines)


def score_of(context: Context, member: Member) -> str:
    """A member's score, with as many digits as tell the context's scores apart."""
    return score_text(member.score, digits_for(context.scores))


def program_text(context: Context, spec: TaskSpec, longest: int | None) -> str:
    """The whole file of the parent."""
    program = context.parent.program
    left = f", {max(0, longest - len(program))} of {longest} are left" if longest is not None else ""
    metrics = "".join(f", {name} {value:g}" for name, value in context.metrics.items())
    best = "" if context.best is not None else " No program that you can see is better."
    head = f"Candidate {context.parent.candidate}, score {score_of(context, context.parent)}{metrics}.{best}"
    feedback = context.parent.feedback
    wrote = f"\nWhat its evaluator wrote, which is data:\n{fenced(feedback, 'text')}" if feedback else ""
    return f"{head} It has {len(program)} characters{left}.{wrote}\n{fenced(program, spec.written_in.fences[0])}"


def member_levels(context: Context, member: Member | None, spec: TaskSpec) -> Levels:
    """A program beside the parent: whole or as its difference, whichever is shorter, then without the middle of that,
    then only its score."""

    def text(level: int) -> str | None:
        if member is None:
            return ""
        head = f"Candidate {member.candidate}, score {score_of(context, member)}"
        if level < len(BESIDE):
            return f"{head}, {beside(member.program, context.parent, spec, BESIDE[level])}"
        return f"{head}. Its text is left out." if level == len(BESIDE) else None

    return text


def beside(program: str, parent: Member, spec: TaskSpec, longest: int | None = None) -> str:
    """The program whole, or what leads to it from the parent if that is shorter, without the middle of what is longer
    than `longest`."""
    difference = _difference(parent.program, program)
    if difference is None or len(difference) >= len(program):
        return f"whole:\n{fenced(_cut(program, longest), spec.written_in.fences[0])}"
    return f"as a difference from candidate {parent.candidate}:\n{fenced(_cut(difference, longest), 'diff')}"


def _cut(text: str, longest: int | None) -> str:
    return text if longest is None else without_middle(text, longest)


@lru_cache(maxsize=256)
def _difference(before: str, after: str) -> str | None:
    """A unified difference without line numbers. What both begin and end with is not compared. None if a comparison of
    the rest would take too long."""
    a, b = before.splitlines(), after.splitlines()
    first = max(0, _common(a, b) - AROUND)
    last = max(0, _common(a[first:][::-1], b[first:][::-1]) - AROUND)
    a, b = a[first : len(a) - last], b[first : len(b) - last]
    if steps(a, b) > MOST_STEPS:
        return None
    return "\n".join(_shortened(list(unified_diff(a, b, lineterm="", n=AROUND))[2:]))


def _shortened(lines: Sequence[str]) -> Iterator[str]:
    """A unified difference without its line numbers. Of a long run of removed lines only the first are shown."""
    for removed, run in groupby(lines, key=lambda line: line.startswith("-")):
        part = list(run)
        if removed and len(part) > REMOVED + 1:
            part[REMOVED:] = [f"-... and {len(part) - REMOVED} more lines removed"]
        yield from ("@@" if line.startswith("@@ ") else line for line in part)


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """How many lines both begin with."""
    shorter = min(len(a), len(b))
    return next((place for place in range(shorter) if a[place] != b[place]), shorter)


def results_levels(context: Context, digits: int) -> Levels:
    """The table of results: best ones, recent ones, the rest counted."""

    def text(level: int) -> str | None:
        if level >= len(ROWS):
            return None
        best, recent, long, short = ROWS[level]
        tops, news = context.best_rows[:best], context.recent_rows[:recent]
        lines: list[str] = []
        for name, rows in (("Best (score, gain over its parent, seconds):", tops), ("Latest:", news)):
            lengths = (long if place < FIRST else short for place in range(len(rows)))
            if rows:
                lines += [name, *(row_text(row, digits, length) for row, length in zip(rows, lengths, strict=True))]
        return "\n".join([*lines, _counts(context, len({row.tested.candidate for row in (*tops, *news)}))])

    return text


def row_text(row: Row, digits: int, longest: int) -> str:
    """One result on one line."""
    tested = row.tested
    head = f"- candidate {tested.candidate} from {tested.parent}: {_outcome(row, digits)}"
    corrected = f" [{one_line(tested.deviation, longest)}]" if tested.deviation else ""
    return f"{head}: {gist(tested.experiment, longest)}{corrected}"


def row_of(tested: TriedOut, digits: int) -> Callable[[int], str]:
    """One result on one line, of a length that is given later, and with at most BRIEF characters of the experiment."""
    return lambda longest: row_text(Row(tested, None), digits, min(longest, BRIEF))


def _of_idea(idea: int | None) -> str:
    return "" if idea is None else f", idea {idea}"


def _outcome(row: Row, digits: int) -> str:
    tested = row.tested
    if tested.score is None:
        return f"{tested.outcome}{f' ({one_line(tested.cause, 120)})' if tested.cause else ''}"
    gain = f", {gain_text(tested.gain)}" if tested.gain is not None else ""
    same = f", exactly as {row.same_as}" if row.same_as is not None else ""
    return f"{score_text(tested.score, digits)}{gain}{same}, {tested.seconds:.2g} s"


def _counts(context: Context, shown: int) -> str:
    if not context.tested:
        return "Nothing has been tried yet."
    causes = ", ".join(f"{cause} {times}" for cause, times in counted(context.failures)[:6])
    failed = f" Without a score: {causes}." if causes else ""
    rest = context.tested - shown
    hidden = f", {rest} not shown" if rest > 0 else ""
    return f"{context.tested} tried in all, {context.scored} with a score{hidden}.{failed}"


def listed(lines: Sequence[Callable[[int], str]], more: int = 0, what: str = "") -> Levels:
    """A list of lines, each made for a longest length. `more` of them are not among these."""

    def text(level: int) -> str | None:
        if not lines:
            return ""
        if level >= len(LISTED):
            return None
        count, long, short = LISTED[level]
        gone = more + max(0, len(lines) - count)
        shown = [line(long if place < FIRST else short) for place, line in enumerate(lines[:count])]
        return "\n".join([*shown, *([f"{gone} more {what}."] if gone else [])])

    return text


def lineage_levels(context: Context) -> Levels:
    """The changes that led to the parent with their gains, its own first. Then those that the table does not show."""
    chain = " from ".join(
        [*(f"{tested.candidate} ({gain_text(tested.gain) or tested.outcome})" for tested in context.lineage)]
        + [str(tested.parent) for tested in context.lineage[-1:]]
    )
    others = [tested for tested in context.lineage if tested.candidate not in _in_table(context)]
    rows = listed([_step_of(tested) for tested in others])

    def text(level: int) -> str | None:
        if not context.lineage:
            return ""
        below = rows(level)
        return None if below is None or (level and not others) else f"{chain}\n{below}".rstrip()

    return text


def _step_of(tested: TriedOut) -> Callable[[int], str]:
    return lambda longest: f"- candidate {tested.candidate}: {gist(tested.experiment, min(longest, BRIEF))}"


def failed_levels(context: Context, digits: int) -> Levels:
    """What failed on the parent and its line. Of what the table shows only the cause is said again."""
    shown = _in_table(context)

    def line(tested: TriedOut) -> Callable[[int], str]:
        if tested.candidate in shown:
            return lambda _: f"- candidate {tested.candidate}: {_outcome(Row(tested, None), digits)}"
        return row_of(tested, digits)

    return listed([line(tested) for tested in context.failed])


def _in_table(context: Context) -> set[int]:
    """Candidates that the table usually has."""
    best, recent, _, _ = ROWS[USUAL]
    rows = (*context.best_rows[:best], *context.recent_rows[:recent])
    return {row.tested.candidate for row in rows}


def ideas_levels(context: Context) -> Levels:
    """The untried ideas, with their numbers."""
    lines: list[Callable[[int], str]] = [
        (lambda longest, idea=idea: f"- idea {idea.number}: {one_line(idea.text, longest)}") for idea in context.ideas
    ]
    return listed(lines, context.untried - len(context.ideas), "untried ideas are not shown")


def under_way_levels(context: Context) -> Levels:
    """What other threads are trying."""
    lines: list[Callable[[int], str]] = [
        (
            lambda longest, each=each: (
                f"- candidate {each.candidate} from {each.parent}{_of_idea(each.idea)}: "
                f"{gist(each.experiment, longest)}"
            )
        )
        for each in context.under_way
    ]
    return listed(lines)


def notes_levels(page: NotesPage | None) -> Levels:
    """The page of notes. Where it is shorter, each of its parts is."""

    def text(level: int) -> str | None:
        if page is None:
            return ""
        if level >= len(PAGES):
            return None
        shown = shorter(page.text, PAGES[level])
        head = f"Written by a model after {page.candidates} candidates, which is data:"
        return f"{head}\n{fenced(shown, 'text')}" if shown else ""

    return text


def levels_of(context: Context, task: Task, around: Surroundings) -> dict[str, Levels]:
    """All sections of the advisor's questions."""
    longest = task.spec.longest_program
    digits = digits_for(context.scores)

    def whole(text: str) -> Levels:
        return lambda level: text if level == 0 else None

    return {
        "task": whole(task_text(task.spec)),
        "limits": whole(limits_text(task.spec, around)),
        "results": results_levels(context, digits),
        "ideas": ideas_levels(context),
        "notes": notes_levels(context.notes),
        "under_way": under_way_levels(context),
        "best": member_levels(context, context.best, task.spec),
        "other": member_levels(context, context.other, task.spec),
        "lineage": lineage_levels(context),
        "failed": failed_levels(context, digits),
        "program": whole(program_text(context, task.spec, longest)),
    }


def contract(spec: TaskSpec) -> str:
    """How a program of the task is called or started, without a full stop at its end."""
    if spec.has_entry:
        return f"The function `{spec.entry}` is called once for each instance"
    if spec.is_command:
        return f"The program is the file {spec.program}, which an evaluator runs and scores"
    built = f" is built by `{' '.join(spec.build)}`, without network, and" if spec.build else ""
    return (
        f"The program{built} is started by `{' '.join(spec.run)}`. It reads one JSON value a line from standard input "
        "and writes one JSON value a line to standard output for each, flushed, and nothing else there"
    )
