"""What a model is told that writes the page of notes. Pure."""

from pace_async.context.figures import digits_for
from pace_async.context.noise import noise_text
from pace_async.context.notes_page import LONGEST
from pace_async.context.questions import Frame, Prompts, Rendered
from pace_async.context.sections import Levels
from pace_async.context.table import ideas_levels, results_levels
from pace_async.context.texts import notes_levels, task_text
from pace_async.context.value import Context, context_of
from pace_async.errors import PaceBug
from pace_async.state.run_state import RunState


def notes_question(prompts: Prompts, state: RunState) -> Rendered:
    """What the model is asked that writes the next page. Raises PaceBug before the search began."""
    seed = state.seed_program
    if seed is None or not state.islands:
        raise PaceBug("notes are due before the search began")
    island = state.islands[min(state.islands)]
    return asked_for_notes(prompts, context_of(state, prompts.task.spec, island, seed, prompts.untried))


def asked_for_notes(prompts: Prompts, context: Context) -> Rendered:
    """The question in this context. Of the context it takes the results, the untried ideas and the last page."""
    task = f"{task_text(prompts.task.spec)}\n\n{noise_text(prompts.task.spec, context.noise)}".rstrip()
    levels: dict[str, Levels] = {
        "task": lambda level: task if level == 0 else None,
        "results": results_levels(context, digits_for(context.scores)),
        "ideas": ideas_levels(context),
        "notes": notes_levels(context.notes),
    }
    frame = Frame(prompts.templates, ("notes_system", "notes"), {"longest": LONGEST})
    return frame.within(levels, prompts.budget)
