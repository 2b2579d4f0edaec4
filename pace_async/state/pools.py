"""Which ideas an island's questions show, and which of them a model is asked about. Pure.

Invariants: nothing is taken out of the memory. A view without the ideas that have left and without their experiments is
made of it. All of it follows from committed facts. Behind a barrier ideas leave from the end of a group on, which their
fact names, as pages of notes are seen (`state.notes`). An idea that is tried after the newest candidate of which the
model knew is shown all the same. Those that people gave or marked never leave.
"""

from collections.abc import Collection
from dataclasses import replace
from math import inf

from pace_async.events import IdeasLeft
from pace_async.search.results import KnownIdea, Results
from pace_async.search.state import Island
from pace_async.state.notes import groups_ended
from pace_async.state.run_state import RunState


def view_of(state: RunState, island: Island, *, soon: bool = False) -> Results:
    """What the island's next rollout may know of earlier ones. `soon`: without what waits for the end of a group."""
    whole = state.memory.view(island.number, island.course)
    facts = _facts(state, island.number, soon)
    if not facts:
        return whole
    words = newest_words(state, island.number, soon=soon)
    removed_ideas = {
        number
        for fact in facts
        for number, text in fact.ideas
        if not text and all(candidate <= fact.newest for candidate in whole.of_idea.get(number, ()))
    }
    ideas = (idea for number, idea in whole.ideas.items() if number not in removed_ideas)
    return Results.of(
        whole.fitness,
        (replace(idea, text=words.get(idea.number, idea.text)) for idea in ideas),
        (experiment for experiment in whole.tested.values() if experiment.idea not in removed_ideas),
    )


def newest_words(state: RunState, island: int, *, soon: bool = False) -> dict[int, str]:
    """The words of ideas that a model has rewritten, by number."""
    facts = _facts(state, island, soon)
    return {number: text for fact in facts for number, text in fact.ideas if text}


def _facts(state: RunState, island: int, soon: bool) -> list[IdeasLeft]:
    ended = inf if soon else groups_ended(state)
    return [fact for fact in state.left.get(island, ()) if (fact.from_group or 0) <= ended]


def pool(state: RunState, view: Results) -> list[KnownIdea]:
    """The ideas of a view that can leave, by number."""
    ideas = (view.ideas[number] for number in view.ordered)
    return [idea for idea in ideas if not idea.by_person and idea.number not in state.steering.ideas]


def crossed(state: RunState, island: int, partner: int) -> None:
    """What had left the partner's pool is left there by the island that takes in its ideas, if it does not know it."""
    known: Collection[int] = state.memory.view(island).ideas
    for fact in state.left.get(partner, ()):
        if new := tuple(each for each in fact.ideas if each[0] not in known):
            remove_ideas(state, replace(fact, island=island, ideas=new))


def remove_ideas(state: RunState, fact: IdeasLeft) -> None:
    """Ideas have left the pool of an island."""
    state.left[fact.island] = (*state.left.get(fact.island, ()), fact)


def left_anywhere(state: RunState) -> set[int]:
    """The ideas that have left some pool."""
    return {number for facts in state.left.values() for fact in facts for number, text in fact.ideas if not text}
