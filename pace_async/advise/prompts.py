"""The prompts of a rollout: propose, assess and select, or the only one.

All have the same order: the task, the parent's evolve block, the lines in which the best program differs, the
idea pool, and last the question. So the prompts of one rollout share a prefix. Code is indented by four spaces. An idea
is one line that starts with its place in the pool, counted from 1. Only these texts use that number. Text from a model
or a program is data: an idea stays on one line and code is indented, so neither can imitate a heading. A prompt names
what it omits to save space. The wording is our own. The parts follow the paper's appendix "Prompt templates". Pure:
equal values give equal text. `advisor` reads the answers.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from textwrap import dedent

from pace_async.advise.wording import Detail, Question
from pace_async.answers import parse_only
from pace_async.fitness import Fitness
from pace_async.programs.text import changes
from pace_async.search.ideas import summarised
from pace_async.search.state import Idea, SearchContext
from pace_async.task import Task, split_block

REMEMBERED = 128
"""Cache size: programs, and pairs of programs, whose lines are kept."""
IDEAS_REMEMBERED = 1024
"""Cache size: texts kept as one line. An idea stands in the prompts of many rollouts."""
LONGEST_SHOWN = 100_000
"""Characters shown of a block. The event loop processes that many in a few milliseconds."""
LEAST_SHOWN = 80
"""Characters: texts are never cut below about this length."""
MARGIN = 100
"""Characters that a cut takes beyond the excess: for its note, and because tokens are not of equal length."""
MOST_STEPS = 300_000
"""Step limit of a comparison in the event loop. Two blocks of a hundred distinct lines take 10,000."""

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


_ONLY = """\
Propose one idea that may improve the score and an experiment on the parent that tests it. Answer:
Hypothesis: one sentence
Experiment description: one sentence
"""


def _assess(proposals: Sequence[str], detail: Detail) -> str:
    texts = [_cut(one_line(text), detail.longest) for text in proposals]
    lines = [f"Proposal {number}: {text}\n" for number, text in enumerate(texts, start=1)]
    return "Proposals:\n" + "".join(lines) + "\n" + _ASSESS


@lru_cache(maxsize=IDEAS_REMEMBERED)
def one_line(text: str) -> str:
    """The text with each run of white space replaced by one space."""
    return " ".join(text.split())


def _beginning(task: Task, context: SearchContext, detail: Detail) -> str:
    background = _cut(_task_text(task.spec.background, task.spec.coding_requirements), detail.longest)
    goal = task.spec.fitness.told
    return (
        f"{background} {goal}\n"
        f"\nParent, score {score_text(context.parent.score)}:\n{_shown(context.parent.program, detail.longest)}"
        f"\n{_best(context, detail)}"
        f"\nIdeas:\n{_pool(context.ideas, task.spec.fitness, detail)}\n"
    )


def _best(context: SearchContext, detail: Detail) -> str:
    """Only the lines in which the best block differs. Lines that it lacks are listed separately."""
    added, lacking = _difference(context.parent.program, context.best.program)
    if not added and not lacking:
        return "The parent is the best.\n"
    if not detail.best:
        return f"Best, score {score_text(context.best.score)}; how it differs is left out.\n"
    text = f"Best, score {score_text(context.best.score)}, where it differs:\n{_code(added)}"
    return text + (f"and lacks:\n{_code(lacking)}" if lacking else "")


def shorter(detail: Detail, ideas: int, longest: int, excess: int | None = None) -> Detail | None:
    """The next shorter detail for a pool of `ideas` ideas and a longest text of `longest` characters, or None after the
    shortest. Omits in order: the best program's difference, results, the least recently used ideas down to one, then
    the middle of the longest text: `excess` characters and MARGIN more, or a third if the excess is not known."""
    if detail.best:
        return replace(detail, best=False)
    if detail.results:
        return replace(detail, results=False)
    if detail.ideas_left_out + 1 < ideas:
        return replace(detail, ideas_left_out=detail.ideas_left_out + 1)
    now = min(longest, detail.longest or longest)
    if excess is None:
        less = now * 2 // 3
        return replace(detail, longest=less) if less >= LEAST_SHOWN else None
    return replace(detail, longest=max(LEAST_SHOWN, now - excess - MARGIN)) if now > LEAST_SHOWN else None


def longest_text(task: Task, context: SearchContext, proposals: Sequence[str]) -> int:
    """Characters of the longest text in a prompt, without texts that can be omitted entirely."""
    block = sum(len(line) + 1 for line in _block(context.parent.program))
    task_text = _task_text(task.spec.background, task.spec.coding_requirements)
    return max(block, len(task_text), *map(len, proposals), *(len(idea.description) for idea in context.ideas))


@lru_cache(maxsize=REMEMBERED)
def _difference(parent_program: str, best_program: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lines only in the best program's block, and lines only in the parent's. Cached, because three prompts of a
    rollout need it and the comparison runs in the event loop."""
    parent, best = _block(parent_program), _block(best_program)
    added: list[str] = []
    lacking: list[str] = []
    for kind, start, end, first, last in changes(parent, best, MOST_STEPS):
        if kind in ("insert", "replace"):
            added += best[first:last]
        if kind == "delete":
            lacking += parent[start:end]
    return tuple(added), tuple(lacking)


def _pool(ideas: Sequence[Idea], fitness: Fitness, detail: Detail) -> str:
    omitted = detail.ideas_left_out
    lines = [_idea(place, idea, fitness, detail) for place, idea in enumerate(ideas, start=1)][omitted:]
    if not detail.results and any(idea.trials for idea in ideas):
        lines.insert(0, "Results are left out.\n")
    if omitted:
        lines.insert(0, "Idea 1 is left out.\n" if omitted == 1 else f"Ideas 1 to {omitted} are left out.\n")
    return "".join(lines) or "none yet\n"


def _idea(place: int, idea: Idea, fitness: Fitness, detail: Detail) -> str:
    description = one_line(idea.description)
    if detail.longest is not None:
        description = _cut(description, detail.longest)
    return f"Idea {place}: {description} ({_experiments(idea, fitness, detail)})\n"


def _experiments(idea: Idea, fitness: Fitness, detail: Detail) -> str:
    """The latest results, after a summary of all if there are many."""
    if not idea.trials:
        return "untried"
    latest = idea.trials[-detail.trials_shown :] if detail.results and detail.trials_shown > 0 else ()
    results = ", ".join(trial.outcome if trial.score is None else score_text(trial.score) for trial in latest)
    if not detail.results or idea.earlier.tried + len(idea.trials) < detail.summary_from:
        return results or "tried"
    summary = summarised(idea, fitness)
    parts = [f"tried {summary.tried}", "no score" if summary.best is None else f"best {score_text(summary.best)}"]
    if summary.failed:
        parts.append(f"failed {summary.failed}: " + " and ".join(f"{name} {n}" for name, n in summary.failures[:2]))
    return "; ".join([", ".join(parts), *([f"latest {results}"] if results else [])])


@lru_cache(maxsize=REMEMBERED)
def _block(program: str) -> tuple[str, ...]:
    """Lines of a program's evolve block without common indentation, or of the whole program if it has no block. Of a
    very long block, the beginning and a note of how much is omitted."""
    try:
        block = split_block(program)[1]
    except ValueError:
        block = program
    if len(block) > LONGEST_SHOWN:
        left_out = len(block) - LONGEST_SHOWN
        block = f"{block[:LONGEST_SHOWN]}\n# {left_out} more characters are left out.\n"
    return tuple(line.rstrip() for line in dedent(block).strip("\n").splitlines() if line.strip())


@lru_cache(maxsize=REMEMBERED)
def _shown(program: str, longest: int | None) -> str:
    return _code(_cut("\n".join(_block(program)), longest, "\n").split("\n"))


def _cut(text: str, longest: int | None, apart: str = " ") -> str:
    """The text, without its middle if it has more than `longest` characters."""
    if longest is None or len(text) <= longest:
        return text
    end = longest // 2
    return f"{text[:end]}{apart}[{len(text) - 2 * end} characters of the middle are left out]{apart}{text[-end:]}"


@lru_cache(maxsize=REMEMBERED)
def _task_text(background: str, requirements: str) -> str:
    return one_line(f"{background} {requirements}")


def _code(lines: Iterable[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


def score_text(score: float) -> str:
    """Five significant digits at most."""
    return f"{score:.5g}"


class ProseWording:
    """Implements `Wording` with the prompts for any language model. Remembers how the last prompt begins, because the
    next one of the same rollout mostly begins alike."""

    compares = False

    def __init__(self, task: Task) -> None:
        self._task = task
        self._last: tuple[SearchContext, Detail, str] | None = None

    def _begins(self, context: SearchContext, detail: Detail) -> str:
        last = self._last
        if last is None or last[0] is not context or last[1] != detail:
            last = self._last = context, detail, _beginning(self._task, self._shown(context), detail)
        return last[2]

    def _shown(self, context: SearchContext) -> SearchContext:
        """The context with the programs that a prompt shows."""
        return context

    def propose(self, context: SearchContext, detail: Detail, draw: Callable[[], random.Random]) -> Question:
        return Question(self._begins(context, detail) + _PROPOSE, context.ideas)

    def only(self, context: SearchContext, detail: Detail, draw: Callable[[], random.Random]) -> Question:
        return Question(self._begins(context, detail) + _ONLY, context.ideas)

    def read_only(self, context: SearchContext, text: str) -> tuple[str, str]:
        return parse_only(text)

    def assess(self, context: SearchContext, proposals: Sequence[str], detail: Detail) -> Question:
        return Question(self._begins(context, detail) + _assess(proposals, detail), context.ideas)

    def select(self, context: SearchContext, detail: Detail) -> Question:
        return Question(self._begins(context, detail) + _SELECT, context.ideas)

    def shorter(
        self, context: SearchContext, proposals: Sequence[str], detail: Detail, excess: int | None = None
    ) -> Detail | None:
        return shorter(detail, len(context.ideas), longest_text(self._task, self._shown(context), proposals), excess)
