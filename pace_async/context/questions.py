"""The questions of one rollout, from its context and the templates, within a budget. Pure but for the template files.

The context comes first in each of them, so the questions of a rollout share a prefix, and so do, as far as it is the
same, those of the next one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pace_async.context.figures import CHARACTERS_PER_TOKEN
from pace_async.context.levels import levels_of
from pace_async.context.sections import Levels, fitted
from pace_async.context.templates import Templates
from pace_async.context.texts import answer_form, answer_length_text, one_line
from pace_async.context.value import NOT_KNOWN, Context, Surroundings, context_of, view_of
from pace_async.search.ideas import words
from pace_async.search.novelty import repeated
from pace_async.search.results import KnownIdea, Results, bare
from pace_async.search.state import Island, Member
from pace_async.state.run_state import RunState
from pace_async.task import Task

SHORTEST = 400
"""Characters of all sections together below which no question makes sense."""
ONLY = ("one", "write")
"""Templates of a rollout's only question."""
LONGEST_IDEA = 600
"""Characters shown of a proposed idea."""


@dataclass(frozen=True, slots=True)
class Near:
    """A proposal, its place from 1, and a known idea whose text is near to it."""

    proposal: int
    text: str
    number: int
    known: str


@dataclass(frozen=True, slots=True)
class Prompts:
    """What the questions of a run are made of. `tokens` is the longest question, `untried` caps untried ideas.
    A page of notes is due every `notes_every` candidates, never with 0. `answer_tokens` are those of the longest answer
    by call: propose (which is also the only one of one call), assess, select and implement. `end_to_end`: the advisor
    writes the code itself."""

    task: Task
    templates: Templates
    around: Surroundings = NOT_KNOWN
    tokens: int = 16000
    untried: int = 12
    notes_every: int = 0
    answer_tokens: Mapping[str, int] = field(default_factory=dict[str, int])
    end_to_end: bool = False

    @property
    def budget(self) -> int:
        """Characters of the longest question."""
        return int(self.tokens * CHARACTERS_PER_TOKEN)

    def questions(self, state: RunState, island: Island, parent: Member) -> "Questions":
        """The questions of the rollout that opens now."""
        context = context_of(state, self.task.spec, island, parent, self.untried)
        return Questions(self, context, view_of(state, island))


@dataclass(frozen=True, slots=True)
class Rendered:
    """A question. `sections` are the texts in it, `cut` says that a part of the task or the parent is missing."""

    system: str
    text: str
    sections: Mapping[str, str]
    cut: bool


@dataclass(slots=True)
class Questions:
    """The questions of one rollout. `view` is what was tried and proposed before, by number."""

    prompts: Prompts
    context: Context
    view: Results
    _levels: dict[str, Levels] = field(default_factory=dict[str, Levels])

    @property
    def under_way(self) -> Mapping[int, str]:
        """The ideas that other threads are trying out, by number. They are known, and in no view yet."""
        return {each.idea: each.what for each in self.context.under_way if each.idea is not None}

    def repeats(self, text: str) -> int | None:
        """The number of the idea that a proposal certainly repeats, one that is under way included."""
        same = repeated(self.view, text)
        if same is not None:
            return same
        proposed = words(bare(text))
        return next((number for number, known in self.under_way.items() if words(known) == proposed), None)

    def render(self, name: str, budget: int, system: str = "system", **extra: Any) -> Rendered:
        """The question of this template in at most `budget` characters, as far as the template itself allows it.
        Raises UsageError for a template that does not render."""
        if not self._levels:
            prompts = self.prompts
            self._levels = levels_of(self.context, prompts.task, prompts.around, to_edit=prompts.end_to_end)
        longest = self.prompts.answer_tokens.get("propose" if name in ONLY else name)
        values = {**extra, "answer_length": answer_length_text(longest)}
        return rendered(self.prompts.templates, (system, name), self._levels, budget, values)

    def one(self, budget: int) -> Rendered:
        """Asks for everything at once."""
        return self.render("one", budget)

    def write(self, budget: int) -> Rendered:
        """Asks for an edit of the parent."""
        form = answer_form(self.prompts.task.spec, self.context.parent.program)
        return self.render("write", budget, "write_system", **form)

    def propose(self, budget: int) -> Rendered:
        """Asks for three ideas."""
        return self.render("propose", budget)

    def assess(self, budget: int, near: Sequence[Near]) -> Rendered:
        """Asks which of these proposals repeat the idea that is near. They are counted from 1."""
        shown = [
            Near(place, one_line(each.text, LONGEST_IDEA), each.number, one_line(each.known, LONGEST_IDEA))
            for place, each in enumerate(near, start=1)
        ]
        return self.render("assess", budget, near=shown)

    def select(self, budget: int, proposed: Sequence[KnownIdea]) -> Rendered:
        """Asks for one idea, one of these or an older one, and an experiment."""
        shown = [{"number": idea.number, "text": one_line(idea.text, LONGEST_IDEA)} for idea in proposed]
        return self.render("select", budget, proposed=shown)


def rendered(
    templates: Templates, names: tuple[str, str], levels: Mapping[str, Levels], budget: int, extra: Mapping[str, Any]
) -> Rendered:
    """System and text of a question, whose sections are fitted so that both together have at most `budget` characters.
    A template may need more for itself: then the sections have SHORTEST together."""
    system_name, name = names
    system = templates.render(system_name, **extra)
    room = budget - len(system) - len(templates.render(name, section=dict.fromkeys(levels, ""), cut=True, **extra))
    while True:
        fit = fitted(levels, max(SHORTEST, room))
        text = templates.render(name, section=fit.texts, cut=fit.cut, **extra)
        over = len(system) + len(text) - budget
        if over <= 0 or room <= SHORTEST:
            return Rendered(system, text, fit.texts, fit.cut)
        room -= over
