"""The three questions put to the advisor, as text.

Same order in all three: what the task is, the parent's evolve block, the lines in which the best program differs, the
idea pool, and the question last, so that prompts of one rollout share their beginning. Code is set off by four spaces,
an idea is one line behind its place in the pool, counted from 1: a small number, used in these texts alone. Whatever a
model or a program wrote is data here: it is put on one line (an idea) or indented (code), so it cannot pose as a
heading. What is left out to save room is said to be. The wording is our own; the parts follow the paper's appendix
"Prompt templates". Pure: same values, same text. Not the place where answers are read: that is `parsing`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from textwrap import dedent

from pace_async.changes import changes
from pace_async.search.state import Idea, SearchContext
from pace_async.search.summaries import summarised
from pace_async.task import Task, split_block

IDEAS_PER_PROPOSAL = 3


@dataclass(frozen=True, slots=True)
class Detail:
    """How much a prompt says. Under an idea stand its latest `trials_shown` experiments, from `summary_from` on behind
    a summary of all. To save room: without any results, without the lines in which the best program differs, without
    the first `ideas_left_out` ideas of the pool, those used longest ago."""

    trials_shown: int = 2
    summary_from: int = 20
    results: bool = True
    best: bool = True
    ideas_left_out: int = 0


WHOLE = Detail()
REMEMBERED = 128
"""Programs, and pairs of them, whose lines are at hand."""
LONGEST_SHOWN = 100_000
"""Characters of a block: what the event loop reads of it in some milliseconds."""
MOST_STEPS = 300_000
"""Of a comparison in the event loop; two blocks of a hundred lines, each line once, take 10,000."""

_PROPOSE = """\
Propose three new ideas that may improve the score. Answer, for N = 1, 2, 3:
Idea N
Hypothesis: one sentence
Reasoning: one sentence
"""

_ASSESS = """\
Say which proposals are new and which repeat an idea K. Answer with one line for each:
Proposal N: new
Proposal N: known K
"""

_SELECT = """\
Choose one idea and describe an experiment on the parent that tests it. Answer:
Idea ID: K
Experiment description: one sentence
"""


def propose_prompt(task: Task, context: SearchContext, detail: Detail = WHOLE) -> str:
    """Asks for three ideas."""
    return _beginning(task, context, detail) + "\n" + _PROPOSE


def assess_prompt(task: Task, context: SearchContext, proposals: Sequence[str], detail: Detail = WHOLE) -> str:
    """Asks, for each proposal, whether the pool holds it already."""
    lines = [f"Proposal {number}: {one_line(text)}\n" for number, text in enumerate(proposals, start=1)]
    return _beginning(task, context, detail) + "\nProposals:\n" + "".join(lines) + "\n" + _ASSESS


def select_prompt(task: Task, context: SearchContext, detail: Detail = WHOLE) -> str:
    """Asks for one idea of the pool and an experiment; the pool already holds what was just proposed."""
    return _beginning(task, context, detail) + "\n" + _SELECT


def one_line(text: str) -> str:
    """The text with every run of white space made one space."""
    return " ".join(text.split())


def _beginning(task: Task, context: SearchContext, detail: Detail) -> str:
    background = _told(task.spec.background, task.spec.coding_requirements)
    goal = "Higher is better." if task.spec.direction == "maximize" else "Lower is better."
    return (
        f"{background} {goal}\n"
        f"\nParent, score {score_text(context.parent.score)}:\n{_shown(context.parent.program)}"
        f"\n{_best(context, detail)}"
        f"\nIdeas:\n{_pool(context.ideas, task.spec.direction, detail)}"
    )


def _best(context: SearchContext, detail: Detail) -> str:
    """Only the lines in which the best block differs; lines that it lacks are named as such."""
    added, lacking = _difference(context.parent.program, context.best.program)
    if not added and not lacking:
        return "The parent is the best.\n"
    if not detail.best:
        return f"Best, score {score_text(context.best.score)}; how it differs is left out.\n"
    text = f"Best, score {score_text(context.best.score)}, where it differs:\n{_code(added)}"
    return text + (f"and lacks:\n{_code(lacking)}" if lacking else "")


def shorter(detail: Detail, ideas: int) -> Detail | None:
    """The next shorter prompt about a pool of `ideas`, None after the shortest. First goes how the best differs, then
    what was tried, then the ideas used longest ago, down to one."""
    if detail.best:
        return replace(detail, best=False)
    if detail.results:
        return replace(detail, results=False)
    if detail.ideas_left_out + 1 < ideas:
        return replace(detail, ideas_left_out=detail.ideas_left_out + 1)
    return None


@lru_cache(maxsize=REMEMBERED)
def _difference(parent_program: str, best_program: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of the best program's block that the parent's has not, and the other way round. Remembered, because
    three prompts of a rollout ask for it, and it is the event loop that compares."""
    parent, best = _block(parent_program), _block(best_program)
    added: list[str] = []
    lacking: list[str] = []
    for kind, start, end, first, last in changes(parent, best, MOST_STEPS):
        if kind in ("insert", "replace"):
            added += best[first:last]
        if kind == "delete":
            lacking += parent[start:end]
    return tuple(added), tuple(lacking)


def _pool(ideas: Sequence[Idea], direction: str, detail: Detail) -> str:
    gone = detail.ideas_left_out
    lines = [_idea(place, idea, direction, detail) for place, idea in enumerate(ideas, start=1)][gone:]
    if not detail.results and any(idea.trials for idea in ideas):
        lines.insert(0, "Results are left out.\n")
    if gone:
        lines.insert(0, "Idea 1 is left out.\n" if gone == 1 else f"Ideas 1 to {gone} are left out.\n")
    return "".join(lines) or "none yet\n"


def _idea(place: int, idea: Idea, direction: str, detail: Detail) -> str:
    return f"Idea {place}: {one_line(idea.description)} ({_experiments(idea, direction, detail)})\n"


def _experiments(idea: Idea, direction: str, detail: Detail) -> str:
    """The latest results, after a summary of all where there are many."""
    if not idea.trials:
        return "untried"
    latest = idea.trials[-detail.trials_shown :] if detail.results and detail.trials_shown > 0 else ()
    results = ", ".join(trial.outcome if trial.score is None else score_text(trial.score) for trial in latest)
    if not detail.results or idea.earlier.tried + len(idea.trials) < detail.summary_from:
        return results or "tried"
    summary = summarised(idea, direction)
    said = [f"tried {summary.tried}", "no score" if summary.best is None else f"best {score_text(summary.best)}"]
    if summary.failed:
        said.append(f"failed {summary.failed}: " + " and ".join(f"{name} {n}" for name, n in summary.failures[:2]))
    return "; ".join([", ".join(said), *([f"latest {results}"] if results else [])])


@lru_cache(maxsize=REMEMBERED)
def _block(program: str) -> tuple[str, ...]:
    """Lines of a program's evolve block, without common indentation; of the whole program if it has no block. Of a very
    long one the beginning, and how much is left out."""
    try:
        block = split_block(program)[1]
    except ValueError:
        block = program
    if len(block) > LONGEST_SHOWN:
        left_out = len(block) - LONGEST_SHOWN
        block = f"{block[:LONGEST_SHOWN]}\n# {left_out} more characters are left out.\n"
    return tuple(line.rstrip() for line in dedent(block).strip("\n").splitlines() if line.strip())


@lru_cache(maxsize=REMEMBERED)
def _shown(program: str) -> str:
    return _code(_block(program))


@lru_cache(maxsize=REMEMBERED)
def _told(background: str, requirements: str) -> str:
    return one_line(f"{background} {requirements}")


def _code(lines: Iterable[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


def score_text(score: float) -> str:
    """Five significant digits at most."""
    return f"{score:.5g}"
