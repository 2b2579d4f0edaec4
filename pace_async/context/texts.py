"""The text of each section, at each level of detail. Pure.

Code stands between fences that are longer than any inside it. Other text of models and programs is on one line, after
words of our own, so that neither can imitate a heading.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from functools import lru_cache
from itertools import groupby

from pace_async.context.figures import digits_for, score_text
from pace_async.context.notes_page import LONGEST, shorter
from pace_async.context.sections import Levels, without_middle
from pace_async.context.value import Context, Surroundings
from pace_async.events import NotesPage
from pace_async.programs.text import steps
from pace_async.search.state import Member
from pace_async.task import TaskSpec

MOST_STEPS = 300_000
"""Step limit of a comparison in the event loop."""
AROUND = 1
"""Unchanged lines shown around a change."""
REMOVED = 3
"""Lines shown of a longer run of removed ones. The parent has them all."""
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
    if around.tools and not spec.has_entry and not spec.environment.prefix:
        lines.append(f"Compilers: {', '.join(around.tools)}.")
    return "\n".join(lines)


def metrics_text(spec: TaskSpec) -> str:
    """What the metrics of a hidden scorer mean, and whether scores are exact."""
    told = [f"{name}: {meaning}" for name, meaning in spec.shown_metrics.items() if meaning]
    lines = [f"What is measured: {'. '.join(told)}."] if told else []
    if not spec.deterministic:
        lines.append("Scores are noisy: a small gain may be none.")
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


def member_levels(context: Context, member: Member | None, spec: TaskSpec, *, alone: bool) -> Levels:
    """A program beside the parent: whole or as its difference, whichever is shorter, then without the middle of that,
    then only its score if that is worth showing `alone`."""

    def text(level: int) -> str | None:
        if member is None:
            return ""
        head = f"Candidate {member.candidate}, score {score_of(context, member)}"
        if level < len(BESIDE):
            return f"{head}, {beside(member.program, context.parent, spec, BESIDE[level])}"
        return f"{head}." if alone and level == len(BESIDE) else None

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
