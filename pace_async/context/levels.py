"""Every section of the advisor's questions, at each level of detail. Pure."""

from functools import cache

from pace_async.context.beside import member_levels
from pace_async.context.figures import digits_for
from pace_async.context.practice import practice_levels
from pace_async.context.sections import Levels
from pace_async.context.table import (
    earlier_levels,
    failed_levels,
    ideas_levels,
    lineage_levels,
    results_levels,
    under_way_levels,
)
from pace_async.context.texts import limits_text, metrics_text, note_levels, notes_levels, program_levels, task_text
from pace_async.context.value import Context, Surroundings
from pace_async.task import Task


def levels_of(context: Context, task: Task, around: Surroundings, *, to_edit: bool = False) -> dict[str, Levels]:
    """All sections of the advisor's questions, each made once a level. `to_edit`: it edits the program itself."""
    digits = digits_for(context.scores)

    def whole(text: str) -> Levels:
        return lambda level: text if level == 0 else None

    limits = f"{limits_text(task.spec, around)}\n{metrics_text(task.spec, context.noise)}".rstrip()
    sections = {
        "task": whole(task_text(task.spec)),
        "limits": whole(limits),
        "results": results_levels(context, digits),
        "earlier": earlier_levels(context.earlier),
        "ideas": ideas_levels(context),
        "notes": notes_levels(context.notes),
        "note": note_levels(context.note),
        "under_way": under_way_levels(context),
        "best": member_levels(context, context.best, task.spec, alone=True),
        "other": member_levels(context, context.other, task.spec, alone=False),
        "lineage": lineage_levels(context),
        "failed": failed_levels(context, digits),
        "program": program_levels(context, task, to_edit=to_edit),
        "practice": practice_levels(context.parent.practice),
    }
    return {name: cache(levels) for name, levels in sections.items()}
