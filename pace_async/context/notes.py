"""What a model is told that writes the page of notes. Pure."""

from dataclasses import replace

from pace_async.context.levels import levels_of
from pace_async.context.notes_page import LONGEST
from pace_async.context.questions import Frame, Prompts, RenderedQuestion
from pace_async.context.value import Context, context_of
from pace_async.errors import PaceBug
from pace_async.state.run_state import RunState

SECTIONS = ("task", "limits", "results", "ideas", "under_way", "notes")


def notes_question(prompts: Prompts, state: RunState) -> RenderedQuestion:
    """What the model is asked that writes the next page. Raises PaceBug before the search began."""
    seed = state.seed_program
    if seed is None or not state.islands:
        raise PaceBug("notes are due before the search began")
    island = state.islands[min(state.islands)]
    return asked_for_notes(prompts, context_of(state, prompts.task.spec, island, seed, prompts.untried))


def asked_for_notes(prompts: Prompts, context: Context) -> RenderedQuestion:
    """The question in this context: what an advisor is told of the task, the results, the ideas and other threads, and
    the last page."""
    notes_context = replace(context, most=prompts.candidates, asked=0)
    every = levels_of(notes_context, prompts.task, prompts.around)
    levels = {name: every[name] for name in SECTIONS}
    frame = Frame(prompts.templates, ("notes_system", "notes"), {"longest": LONGEST})
    return frame.within(levels, prompts.budget)
