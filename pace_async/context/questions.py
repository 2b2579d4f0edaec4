"""The questions of one rollout, from its context and the templates, within a budget. Pure but for the template files.

The context comes first in each of them, so the questions of a rollout share a prefix, and so do, as far as it is the
same, those of the next one.

Invariant: the questions of three calls show the same context, character by character. It is fitted once, to the longest
that any of them can become, so a service that keeps prefixes reads it once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pace_async.answers import IDEAS_PER_PROPOSAL
from pace_async.context.figures import CHARACTERS_PER_TOKEN
from pace_async.context.levels import levels_of
from pace_async.context.sections import FittedSections, Levels, fit_sections
from pace_async.context.templates import Templates
from pace_async.context.texts import answer_form, answer_length_text, fenced, needs_of, one_line
from pace_async.context.value import NOT_KNOWN, Context, Surroundings, context_of
from pace_async.search.ideas import words
from pace_async.search.novelty import repeated
from pace_async.search.results import KnownIdea, Results, bare
from pace_async.search.state import Island, Member
from pace_async.state.pools import view_of
from pace_async.state.run_state import RunState
from pace_async.task import Task

SHORTEST = 400
"""Characters of all sections together below which no question makes sense."""
ONLY = ("one", "write")
"""Templates of a rollout's only question."""
THREE = ("propose", "assess", "select")
"""Templates of a rollout of three calls."""
IDEAS_SHARE = 0.1
"""Of the longest question, for the texts of ideas that a later call asks about, together."""
SHORTEST_IDEA, LONGEST_IDEA = 100, 600
"""Characters shown of a proposed idea, if it has as many."""
LONGEST_ANSWER = 8000
"""Characters shown of an answer that could not be used: its end."""
HIGHEST = 10**9
"""A number of an idea that has as many digits as any."""


@dataclass(frozen=True, slots=True)
class NearProposal:
    """A proposal, its place from 1, and a known idea whose text is near to it."""

    proposal: int
    text: str
    number: int
    known: str


@dataclass(frozen=True, slots=True)
class Prompts:
    """What the questions of a run are made of. `tokens` is the longest question, `untried` caps untried ideas.
    A page of notes is due every `notes_every` candidates, never with 0. A pool keeps `drop_ideas` ideas, all with 0.
    `answer_tokens` are those of the longest answer by call: propose (which is also the only one of one call), assess,
    select and implement. `end_to_end`: the advisor writes the code itself. The run ends after so many `candidates`,
    None if it has no such limit."""

    task: Task
    templates: Templates
    around: Surroundings = NOT_KNOWN
    tokens: int = 16000
    untried: int = 12
    notes_every: int = 0
    answer_tokens: Mapping[str, int] = field(default_factory=dict[str, int])
    drop_ideas: int = 0
    end_to_end: bool = False
    candidates: int | None = None

    @property
    def budget(self) -> int:
        """Characters of the longest question."""
        return int(self.tokens * CHARACTERS_PER_TOKEN)

    def questions(self, state: RunState, island: Island, parent: Member) -> "Questions":
        """The questions of the rollout that opens now."""
        context = context_of(state, self.task.spec, island, parent, self.untried)
        return Questions(self, replace(context, most=self.candidates), view_of(state, island))


@dataclass(frozen=True, slots=True)
class RenderedQuestion:
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
    _fits: dict[int, FittedSections] = field(default_factory=dict[int, FittedSections])

    @property
    def under_way(self) -> Mapping[int, str]:
        """The ideas that other threads are trying out, and those that were proposed with them, by number. They are
        known, and in no view yet."""
        trials = {each.idea: each.what for each in self.context.under_way if each.idea is not None}
        choices = self.context.choosable.items()
        beside = {number: idea.text for number, idea in choices if number not in self.view.ideas}
        return {**beside, **trials}

    def repeats(self, text: str) -> int | None:
        """The number of the idea that a proposal certainly repeats, one that is under way included."""
        same = repeated(self.view, text)
        if same is not None:
            return same
        proposed = words(bare(text))
        return next((number for number, known in self.under_way.items() if words(known) == proposed), None)

    def render(self, name: str, budget: int, system: str = "system", **extra: Any) -> RenderedQuestion:
        """The question of this template in at most `budget` characters, as far as the template itself allows it.
        Raises UsageError for a template that does not render."""
        if not self._levels:
            prompts = self.prompts
            self._levels = levels_of(self.context, prompts.task, prompts.around, to_edit=prompts.end_to_end)
        frame = self._frame(name, system, extra)
        if name not in THREE:
            return frame.within(self._levels, budget)
        if budget not in self._fits:
            longest = [self._frame(each, system, _longest(each, budget)) for each in THREE]
            self._fits[budget] = fit_of(longest, self._levels, budget)
        return frame.filled(self._fits[budget])

    def _frame(self, name: str, system: str, extra: Mapping[str, Any]) -> "Frame":
        longest = self.prompts.answer_tokens.get("propose" if name in ONLY else name)
        needs = needs_of(self.prompts.task.spec)
        values = {**extra, "answer_length": answer_length_text(longest), "needs": needs}
        return Frame(self.prompts.templates, (system, name), values)

    def one(self, budget: int) -> RenderedQuestion:
        """Asks for everything at once."""
        return self.render("one", budget)

    def write(self, budget: int) -> RenderedQuestion:
        """Asks for an edit of the parent."""
        form = answer_form(self.prompts.task.spec, self.context.parent.program)
        return self.render("write", budget, "write_system", **form)

    def propose(self, budget: int) -> RenderedQuestion:
        """Asks for three ideas."""
        return self.render("propose", budget)

    def assess(self, budget: int, near: Sequence[NearProposal]) -> RenderedQuestion:
        """Asks which of these proposals repeat the idea that is near. They are counted from 1."""
        longest = _longest_idea("assess", budget)
        pairs = [
            NearProposal(place, one_line(each.text, longest), each.number, one_line(each.known, longest))
            for place, each in enumerate(near, start=1)
        ]
        return self.render("assess", budget, near=pairs)

    def select(self, budget: int, proposed: Sequence[KnownIdea]) -> RenderedQuestion:
        """Asks for one idea, one of these or an older one, and an experiment."""
        longest = _longest_idea("select", budget)
        ideas = [{"number": idea.number, "text": one_line(idea.text, longest)} for idea in proposed]
        return self.render("select", budget, proposed=ideas)

    def again(
        self, question: Callable[[int], RenderedQuestion], budget: int, answer: str, wrong: str
    ) -> RenderedQuestion:
        """A question once more, with an answer to it that could not be used and what is `wrong` with it."""
        quote = fenced(answer[-LONGEST_ANSWER:])
        more = self.prompts.templates.render("again", answer=quote, wrong=one_line(wrong))
        rendered = question(budget - len(more))
        return replace(rendered, text=f"{rendered.text}\n{more}")


@dataclass(frozen=True, slots=True)
class Frame:
    """A question without its sections: the templates of its system message and its text, and their other values."""

    templates: Templates
    names: tuple[str, str]
    values: Mapping[str, Any]

    def within(self, levels: Mapping[str, Levels], budget: int) -> RenderedQuestion:
        """The question with its sections fitted to it alone."""
        return self.filled(fit_of([self], levels, budget))

    def filled(self, fit: FittedSections) -> RenderedQuestion:
        """The question with these sections."""
        system, text = self.names
        return RenderedQuestion(
            self.templates.render(system, **self.values),
            self.templates.render(text, section=fit.texts, cut=fit.cut, **self.values),
            fit.texts,
            fit.cut,
        )


def fit_of(frames: Sequence[Frame], levels: Mapping[str, Levels], budget: int) -> FittedSections:
    """The sections with which each of these questions has at most `budget` characters, system message included.
    A template may need more for itself: then the sections have SHORTEST together."""
    room = budget - _size(frames, FittedSections(dict.fromkeys(levels, ""), cut=True))
    while True:
        fit = fit_sections(levels, max(SHORTEST, room))
        over = _size(frames, fit) - budget
        if over <= 0 or room <= SHORTEST:
            return fit
        room -= over


def _size(frames: Sequence[Frame], fit: FittedSections) -> int:
    """Characters of the longest of these questions."""
    return max(len(rendered.system) + len(rendered.text) for rendered in (frame.filled(fit) for frame in frames))


def _longest_idea(name: str, budget: int) -> int:
    """Characters shown of an idea in a question of at most `budget`. Beside each proposal `assess` has a known one."""
    texts = 2 * IDEAS_PER_PROPOSAL if name == "assess" else IDEAS_PER_PROPOSAL
    return min(LONGEST_IDEA, max(SHORTEST_IDEA, int(budget * IDEAS_SHARE / texts)))


def _longest(name: str, budget: int) -> Mapping[str, Any]:
    """The longest values that one of THREE can be asked with."""
    text = "x" * _longest_idea(name, budget)
    if name == "assess":
        return {"near": [NearProposal(place, text, HIGHEST, text) for place in range(1, IDEAS_PER_PROPOSAL + 1)]}
    return {"proposed": [{"number": HIGHEST, "text": text}] * IDEAS_PER_PROPOSAL} if name == "select" else {}
