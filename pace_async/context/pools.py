"""What a model is told that says which ideas leave a pool, and its answer. Pure.

    Leave: 3, 7
    Idea 5: the new words of an idea that stays        (none, one or several)

The last line that names ideas to leave counts, and what stands after it.
"""

import re
from collections.abc import Collection, Sequence

from pace_async.context.figures import digits_for
from pace_async.context.questions import Frame, Prompts, RenderedQuestion
from pace_async.context.rows import row_of
from pace_async.context.sections import Levels
from pace_async.context.table import BRIEF, row_text
from pace_async.context.texts import in_short, measured_text, task_text
from pace_async.errors import CandidateFault
from pace_async.outside import sound
from pace_async.search.results import KnownIdea, Results
from pace_async.task import TaskSpec

LONGEST = 400
"""Characters of the new words of an idea."""
SIZES = ((LONGEST, 8), (LONGEST, 4), (200, 2), (120, 1), (60, 0), (30, 0))
"""Levels of the pool: characters of an idea, and its newest experiments."""
_LEAVE = re.compile(r"[*_#\- ]*Leave[*_ ]*:(.*)", re.IGNORECASE)
_IDEA = re.compile(r"[*_#\- ]*Idea +(\d+)[*_ ]*:(.*)", re.IGNORECASE)


def pool_question(prompts: Prompts, view: Results, ideas: Sequence[KnownIdea]) -> RenderedQuestion:
    """Which of these ideas of the view are to leave."""
    levels: dict[str, Levels] = {
        "task": lambda level: task_text(prompts.task.spec) if level == 0 else None,
        "measured": lambda level: f"{measured_text(prompts.task.spec)}\n" if level == 0 else None,
        "ideas": _pool_levels(view, ideas, prompts.task.spec),
    }
    values = {"pool": len(ideas), "kept": prompts.drop_ideas, "longest": LONGEST}
    return Frame(prompts.templates, ("pool_system", "pool"), values).within(levels, prompts.budget)


def _pool_levels(view: Results, ideas: Sequence[KnownIdea], spec: TaskSpec) -> Levels:
    """Each idea with its newest experiments, the newest first."""
    digits = digits_for([experiment.score for experiment in view.tested.values() if experiment.score is not None])

    def told(idea: KnownIdea, longest: int, most: int) -> str:
        experiments = [view.tested[candidate] for candidate in reversed(view.of_idea.get(idea.number, ()))]
        count = f"experiments: {len(experiments)}" if experiments else "not tried"
        rows = [
            row_text(row_of(view, experiment, spec), digits, BRIEF, (), bare=True) for experiment in experiments[:most]
        ]
        return "\n".join([f"Idea {idea.number} ({count}): {in_short(idea.text, longest)}", *rows])

    def text(level: int) -> str | None:
        return None if level >= len(SIZES) else "\n".join(told(idea, *SIZES[level]) for idea in ideas)

    return text


def changes_in(answer: str, ideas: Collection[int]) -> tuple[tuple[int, str], ...]:
    """What becomes of these ideas: by number, the new words of those that get any, and none for those that leave.
    Raises CandidateFault("unparsed") if none leaves, all do, or one is not of the pool."""
    lines = [sound(line).strip() for line in answer.splitlines()]
    leave_lines = [(place, matched[1]) for place, line in enumerate(lines) if (matched := _LEAVE.fullmatch(line))]
    place, numbers = leave_lines[-1] if leave_lines else (0, "")
    leaving = {int(number) for number in re.findall(r"\d+", numbers)}
    if not leaving or leaving >= set(ideas) or not leaving <= set(ideas):
        raise CandidateFault("unparsed", f"the line {f'Leave:{numbers}'!r} does not name some of the ideas of the pool")
    matched = (_IDEA.fullmatch(line) for line in lines[place + 1 :])
    texts = {int(line[1]): " ".join(line[2].split())[:LONGEST] for line in matched if line is not None}
    stay = set(ideas) - leaving
    changes = {number: text for number, text in texts.items() if number in stay and text.isprintable() and text}
    return tuple(sorted({**changes, **dict.fromkeys(leaving, "")}.items()))
