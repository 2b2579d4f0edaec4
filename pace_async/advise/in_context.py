"""One rollout's advice from a model that is told the context of the run, in one call or in three, or its edit in one.

Ideas have numbers for the run's life. Whether a proposal is new is decided by its text. Only where a known idea's text
is near, and where the calls are three, the model is asked, and never when nothing was proposed before.

Invariants as in `advisor`: the result holds every sampled call, parsed or not, and a question that does not fit is
asked again in a shorter form. An answer that cannot be parsed ends the rollout. Only an advisor that learns nothing is
asked once more first, with its answer and what is wrong with it, because there is nothing to be trained by it. An
answer that the rollout has already paid for is taken for its question whatever that question says now: what it was told
then was as true.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import anyio

from pace_async.advise.advisor import Advice, Sampling, excess_of
from pace_async.advise.base import Advisor, PromptTooLong
from pace_async.advise.one_answer import OneAnswer, parse_one
from pace_async.answers import parse_assess, parse_propose, parse_select
from pace_async.context.questions import NearProposal, Questions, RenderedQuestion
from pace_async.errors import CandidateFault
from pace_async.events import AdvisorCall, IdeaNote, Purpose
from pace_async.events.causes import DID_NOT_END
from pace_async.search.novelty import nearest
from pace_async.search.results import KnownIdea, idea_number
from pace_async.search.state import Idea

MARGIN = 100
"""Characters that a shorter question leaves free beyond the excess."""
FEWER = 0.67
"""Share of a question's characters that is kept where the excess is not known."""

T = TypeVar("T")
ReadEdit = Callable[[str, str, str], Awaitable[str]]
"""The title of the edit in an answer, from the answer, the parent's program and its language. Raises
CandidateFault("unparsed") for an answer without an edit."""


@dataclass(slots=True)
class _Rollout:
    """One rollout's calls. `answers` are those that it has paid for already. `budget` is the most characters of a
    question. After one that was too long it stays smaller, so that later questions share their context. `mends`: an
    answer that cannot be parsed is asked for once more."""

    advisor: Advisor
    questions: Questions
    lease: int
    sampling: Sampling
    now: Callable[[], float]
    budget: int
    answers: Sequence[AdvisorCall] = ()
    mends: bool = False
    calls: list[AdvisorCall] = field(default_factory=list[AdvisorCall])
    notes: list[IdeaNote] = field(default_factory=list[IdeaNote])

    async def ask(self, purpose: Purpose, question: Callable[[int], RenderedQuestion]) -> str:
        """The answer's text. Raises CandidateFault("unparsed") for one that was cut off, and PromptTooLong."""
        paid = next((call for call in self.answers if call.purpose == purpose and call not in self.calls), None)
        if paid is not None:
            self.calls.append(paid)
            return paid.text
        while True:
            rendering, begun = question(self.budget), self.now()
            prompt = self.sampling.prompt(self.lease, purpose, rendering.text, system=rendering.system.strip())
            try:
                call, finish = await self.advisor.ask(prompt)
                break
            except PromptTooLong as fault:
                size = len(rendering.system) + len(rendering.text)
                excess = excess_of(fault, prompt)
                smaller = int(size * FEWER) if excess is None else size - excess - MARGIN
                if smaller <= 0 or len(question(smaller).text) >= len(rendering.text):
                    raise
                self.budget = smaller
        self.calls.append(call if call.seconds else replace(call, seconds=self.now() - begun))
        if finish == "length":
            raise CandidateFault("unparsed", f"{purpose} {DID_NOT_END} {prompt.max_tokens} tokens")
        return call.text

    async def read(self, purpose: Purpose, question: Callable[[int], RenderedQuestion], parse: Callable[[str], T]) -> T:
        """What the answer says. Raises as `ask`, and CandidateFault("unparsed") for an answer that `parse` refuses."""
        text = await self.ask(purpose, question)
        try:
            return parse(text)
        except CandidateFault as fault:
            if not self.mends:
                raise
            wrong = fault.detail
        return parse(await self.ask(purpose, lambda budget: self.questions.again(question, budget, text, wrong)))

    def admit(self, texts: Sequence[str], verdicts: Sequence[int | None]) -> None:
        """Give each proposal its number: that of the idea which it repeats, or one of its own."""
        view = self.questions.view
        for place, (text, known) in enumerate(zip(texts, verdicts, strict=True), start=1):
            same = next((note for note in self.notes if note.description == text), None)
            if same is not None:
                self.notes.append(replace(same, known=True))
            elif known is not None:
                idea = view.ideas.get(known)
                self.notes.append(IdeaNote(known, idea.text if idea is not None else text, True))
            else:
                self.notes.append(IdeaNote(idea_number(self.lease, place), text, False))

    def chosen(self, number: int) -> Idea:
        """The idea of this number. Raises CandidateFault if there is none, or a person has ruled it out."""
        if any(number == idea.number for idea in self.questions.context.vetoed):
            raise CandidateFault("unparsed", f"idea {number} was ruled out by a person")
        for note in self.notes:
            if note.number == number:
                return Idea(number, note.description)
        listed, known = self.questions.context.choosable, self.questions.view.ideas
        idea = listed.get(number) or known.get(number)
        if idea is None:
            hint = f", and those listed are {', '.join(map(str, listed))}" if listed else ""
            raise CandidateFault("unparsed", f"there is no idea {number}{hint}")
        return Idea(number, idea.text)

    async def one(self) -> Advice:
        """The advice of one call. A number that is no idea covers nothing. An idea that another thread is trying out
        may be covered too: then it is no untried one if the machine loses that experiment."""
        answer = await self.read("propose", self.questions.one, self._one_answer)
        texts, view = answer.texts, self.questions.view
        self.admit(texts, [self.questions.repeats(text) for text in texts])
        number = answer.number if answer.place is None else self.notes[answer.place - 1].number
        if number is None:
            raise CandidateFault("unparsed", "no idea is chosen")
        own = {self.notes[place - 1].number for place in answer.covers_places}
        known = view.ideas.keys() | self.questions.under_way.keys()
        covers = (own | (known & set(answer.covers))) - {number}
        advice = self.advice(self.chosen(number), answer.specification)
        return replace(advice, covers=tuple(sorted(covers)), base=answer.base)

    def _one_answer(self, text: str) -> OneAnswer:
        answer = parse_one(text)
        if answer.number is not None:
            self.chosen(answer.number)
        return answer

    async def written(self, read: ReadEdit) -> Advice:
        """The edit that the advisor wrote itself: its whole answer is the experiment, and its title a new idea."""
        text = await self.ask("propose", self.questions.write)
        parent, spec = self.questions.context.parent, self.questions.prompts.task.spec
        self.admit([await read(text, parent.program, spec.language)], [None])
        return self.advice(self.chosen(self.notes[0].number), text)

    async def three(self) -> Advice:
        """The chosen idea and the experiment, of two calls, or of three where a proposal is near to a known idea."""
        texts = [hypothesis for hypothesis, _ in await self.read("propose", self.questions.propose, parse_propose)]
        self.admit(texts, await self._verdicts(texts))
        proposed = [KnownIdea(note.number, note.description, self.lease, self.lease) for note in self.notes]
        highest = max([note.number for note in self.notes] + list(self.questions.view.ordered[-1:]))

        def selected(text: str) -> tuple[Idea, str]:
            number, experiment = parse_select(text, highest)
            return self.chosen(number), experiment

        question = partial(self.questions.select, proposed=proposed)
        return self.advice(*await self.read("select", question, selected))

    def advice(self, idea: Idea, experiment: str) -> Advice:
        """The advice to try out this idea, which comes first in the pool."""
        pool = idea, *(Idea(note.number, note.description) for note in self.notes if note.number != idea.number)
        return Advice(tuple(self.calls), tuple(self.notes), pool, 1, idea.number, experiment)

    async def _verdicts(self, texts: Sequence[str]) -> list[int | None]:
        view = self.questions.view
        verdicts = [self.questions.repeats(text) for text in texts]
        near: list[NearProposal] = []
        for place, (text, known) in enumerate(zip(texts, verdicts, strict=True), start=1):
            neighbour = nearest(view, text) if known is None else None
            if neighbour is not None:
                near.append(NearProposal(place, text, *neighbour))
        if near:
            question = partial(self.questions.assess, near=near)
            answers = await self.read("assess", question, partial(_assessed, near=near, highest=view.ordered[-1]))
            for each, known in zip(near, answers, strict=True):
                verdicts[each.proposal - 1] = known
        return verdicts


def _assessed(text: str, near: Sequence[NearProposal], highest: int) -> Sequence[int | None]:
    """Which of these proposals repeat the idea that they were compared with."""
    verdicts = parse_assess(text, len(near), highest)
    for each, known in zip(near, verdicts, strict=True):
        if known is not None and known != each.number:
            raise CandidateFault("unparsed", f"proposal {each.proposal} was compared with idea {each.number}")
    return verdicts


async def advise_in_context(
    advisor: Advisor,
    questions: Questions,
    *,
    lease: int,
    sampling: Sampling,
    answers: Sequence[AdvisorCall] = (),
    now: Callable[[], float] = anyio.current_time,
    read: ReadEdit | None = None,
    mends: bool = False,
) -> Advice:
    """Raises what `Advisor.ask` raises, and PromptTooLong if even the shortest question is too long. `answers` are
    those that an earlier process has paid for. With `read` the advisor writes the code itself. `mends`: an answer that
    cannot be parsed is asked for once more."""
    rollout = _Rollout(advisor, questions, lease, sampling, now, questions.prompts.budget, answers, mends)
    try:
        if read is not None:
            return await rollout.written(read)
        return await (rollout.one() if sampling.one_call else rollout.three())
    except CandidateFault as fault:
        if fault.kind != "unparsed":
            raise
        return Advice(tuple(rollout.calls), tuple(rollout.notes), (), 1, unparsed=fault.detail)


def reasoning_of(calls: Sequence[AdvisorCall], one_call: bool, idea: str) -> str:
    """Why the advisor chose its idea, from the answers as they are recorded. Empty where it did not say."""
    last = next((call.text for call in reversed(calls) if call.purpose == "propose"), "")
    try:
        if one_call:
            return parse_one(last).reasoning
        return next((reasoning for hypothesis, reasoning in parse_propose(last) if hypothesis == idea), "")
    except CandidateFault:
        return ""
