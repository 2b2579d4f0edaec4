"""One rollout's advice: propose three ideas, assess which are new, admit them to the pool, select an experiment.

With one call a rollout, the only idea is the experiment: the reward is that of all its words.

Invariant: the result holds every sampled call, parsed or not, because each one is trained with the rollout's reward. An
answer that cannot be parsed ends the rollout without an experiment. An InfrastructureFault passes through, and there is
no rollout. A prompt that does not fit is sent again in a shorter form. The module keeps no state between rollouts.

What an answer must look like stands in `pace_async.answers`. All of its tokens are part of the call, those of a
model's thinking too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import Literal, Protocol

import anyio

from pace_async.advise.base import Advisor, Engine, Prompt, PromptTooLong
from pace_async.advise.wording import Detail, Question, Wording, read_words
from pace_async.answers import after_thinking, parse_assess, parse_propose, parse_select
from pace_async.config.advisor import END_OF_THINKING
from pace_async.errors import CandidateFault
from pace_async.events import AdvisorCall, IdeaNote, Purpose
from pace_async.events.causes import DID_NOT_END
from pace_async.frozen_values import fast_init
from pace_async.programs.languages import Language
from pace_async.search.draws import derive, generator
from pace_async.search.edit_bandit import Results
from pace_async.search.ideas import admit, recognised
from pace_async.search.state import Idea, SearchContext


@dataclass(frozen=True, slots=True)
class Sampling:
    """How answers are sampled, and what prompts contain. `max_tokens_by_call` goes before `max_tokens`. `ideas_kept`
    caps the pool. A prompt shows the latest `trials_shown` experiments of each idea, with a summary from `summary_from`
    experiments on. `max_prompt_tokens` caps a prompt (None: only the engine's context does). `one_call`: a rollout is
    one call."""

    seed: int
    max_tokens: int = 256
    temperature: float = 1.0
    ideas_kept: int = 5
    trials_shown: int = 2
    summary_from: int = 20
    max_prompt_tokens: int | None = None
    max_tokens_by_call: Mapping[Purpose, int] = field(default_factory=dict[Purpose, int])
    one_call: bool = False

    def prompt(self, lease: int, purpose: Purpose, text: str, cut_after: int | None = None, system: str = "") -> Prompt:
        """One question of a lease. Its seed derives from (run seed, lease, purpose)."""
        longest = self.max_tokens_by_call.get(purpose, self.max_tokens)
        return Prompt(
            lease=lease,
            purpose=purpose,
            text=text,
            max_tokens=longest if cut_after is None else min(longest, cut_after),
            temperature=self.temperature,
            seed=derive(self.seed, lease, purpose),
            max_prompt_tokens=self.max_prompt_tokens,
            system=system,
        )


@fast_init
@dataclass(frozen=True, slots=True)
class Advice:
    """Sampled calls and what was parsed from them. `pool` and `next_idea` are the state after the proposals were
    admitted. If an answer could not be parsed, `idea` and `experiment` are None and `unparsed` holds the reason.
    `covers` are other ideas that need no experiment any more, by the advisor's word. `base` is the candidate that it
    would change in place of the parent."""

    calls: tuple[AdvisorCall, ...]
    notes: tuple[IdeaNote, ...]
    pool: tuple[Idea, ...]
    next_idea: int
    idea: int | None = None
    experiment: str | None = None
    unparsed: str | None = None
    covers: tuple[int, ...] = ()
    base: int | None = None

    @property
    def oldest_version(self) -> int:
        """The oldest weight version among the tokens of its calls. Without tokens it is that of the given advisor."""
        return min((span.version for call in self.calls for span in call.spans), default=0)


class Chooser(Protocol):
    """An advisor without a model. It decides on an experiment from earlier results, and calls no model."""

    def choose(self, context: SearchContext, results: Results, *, lease: int, sampling: Sampling) -> Advice:
        """The advice, without calls. `results` are those of closed leases. Equal values give equal advice."""
        ...


ChooserFactory = Callable[[Mapping[str, tuple[str, ...]], Language], Chooser]
"""Makes one from the words of each target's options and the language of the task's programs."""


async def advise(
    advisor: Advisor,
    wording: Wording,
    context: SearchContext,
    *,
    lease: int,
    sampling: Sampling,
    now: Callable[[], float] = anyio.current_time,
) -> Advice:
    """`wording` words the questions. Raises InfrastructureFault if the advisor's service fails,
    PromptTooLong if even the shortest prompt is too long, and what else `Advisor.ask` raises. What a wording draws
    derives from (run seed, lease). A prompt is shortened only as far as it must be to fit."""
    calls, proposals, whole = list[AdvisorCall](), list[str](), Detail(sampling.trials_shown, sampling.summary_from)
    pool, next_idea, notes = context.ideas, context.next_idea, tuple[IdeaNote, ...]()

    async def ask(purpose: Purpose, question: Callable[[Detail], Question]) -> tuple[str, tuple[Idea, ...]]:
        """The answer's text, and the ideas that its numbers mean."""
        detail = whole
        while True:
            query, begun = question(detail), now()
            prompt = sampling.prompt(lease, purpose, query.text, query.cut_after)
            try:
                call, finish = await advisor.ask(prompt)
                break
            except PromptTooLong as fault:
                less = wording.shorter(replace(context, ideas=pool), proposals, detail, excess_of(fault, prompt))
                if less is None:
                    raise
                detail = less
        calls.append(_with_words(call, query.words, now() - begun))
        if finish == "length" and query.cut_after is None:
            raise CandidateFault("unparsed", f"{purpose} {DID_NOT_END} {prompt.max_tokens} tokens")
        return calls[-1].text, query.ideas

    draw = partial(generator, sampling.seed, lease, "propose", "menu")

    def admitted(verdicts: Sequence[int | None]) -> None:
        nonlocal pool, notes, next_idea
        pool, notes, next_idea = admit(context.ideas, proposals, verdicts, next_idea, sampling.ideas_kept)

    try:
        if sampling.one_call:
            text, _ = await ask("propose", lambda detail: wording.only(context, detail, draw))
            idea, experiment = wording.read_only(context, text)
            proposals = [idea]
            admitted(recognised(context.ideas, proposals, [None], next_idea))
            return Advice(tuple(calls), notes, pool, next_idea, notes[0].number, experiment)
        text, _ = await ask("propose", lambda detail: wording.propose(context, detail, draw))
        proposals = [hypothesis for hypothesis, _ in parse_propose(text)]
        text, ideas = await ask("assess", lambda detail: wording.assess(context, proposals, detail))
        places = parse_assess(text, len(proposals), len(ideas))
        numbers = [None if place is None or wording.compares else ideas[place - 1].number for place in places]
        admitted(recognised(context.ideas, proposals, numbers, next_idea))
        # `replace` takes twice as long
        pooled = SearchContext(context.parent, context.best, pool, context.next_idea)
        text, ideas = await ask("select", lambda detail: wording.select(pooled, detail))
        place, experiment = parse_select(text, len(ideas))
        return Advice(tuple(calls), notes, pool, next_idea, ideas[place - 1].number, experiment)
    except CandidateFault as fault:
        if fault.kind != "unparsed":
            raise
        return Advice(tuple(calls), notes, pool, next_idea, unparsed=fault.detail)


def _with_words(call: AdvisorCall, words: Mapping[str, str], seconds: float) -> AdvisorCall:
    """The call with the words that are meant. It took `seconds` if the advisor does not say how long."""
    if call.seconds and not words and not call.words:
        return call
    return AdvisorCall(  # `replace` takes twice as long
        purpose=call.purpose,
        prompt_ids=call.prompt_ids,
        completion_ids=call.completion_ids,
        logprobs=call.logprobs,
        spans=call.spans,
        text=read_words(call.text, words) if words else call.text,
        seconds=call.seconds or seconds,
        prompt=call.prompt,
        words=words,
    )


def excess_of(fault: PromptTooLong, prompt: Prompt) -> int | None:
    """Characters by which a prompt is too long, from the tokens that the model's own tokenizer counted in it. None if
    they are not known. In an engine's context the answer needs room too, half of the context at most."""
    limit = fault.context
    if limit is None or fault.tokens <= 0:
        return None
    if limit != prompt.max_prompt_tokens:
        limit = max(limit - prompt.max_tokens, limit // 2)
    excess = fault.tokens - limit
    return ceil(excess * len(prompt.whole) / fault.tokens) if excess > 0 else None


class ServedAdvisor:
    """Implements `advise.base.Advisor` by an engine. `now` is a clock for the seconds of a call. Without one they are
    0."""

    def __init__(
        self, engine: Engine, end_of_thinking: str = END_OF_THINKING, now: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._engine = engine
        self._end_of_thinking = end_of_thinking
        self._now = now

    async def ask(self, prompt: Prompt) -> tuple[AdvisorCall, Literal["stop", "length"]]:
        begun = self._now()
        prompt_ids = await self._engine.encode(prompt.whole)
        if prompt.max_prompt_tokens is not None and len(prompt_ids) > prompt.max_prompt_tokens:
            raise PromptTooLong(len(prompt_ids), prompt.max_prompt_tokens)
        completion = await self._engine.generate(
            prompt_ids, max_tokens=prompt.max_tokens, temperature=prompt.temperature, seed=prompt.seed
        )
        text = after_thinking(await self._engine.decode(completion.token_ids), self._end_of_thinking)
        call = AdvisorCall(
            purpose=prompt.purpose,
            prompt_ids=prompt_ids,
            completion_ids=completion.token_ids,
            logprobs=completion.logprobs,
            spans=completion.spans,
            text=text,
            seconds=self._now() - begun,
        )
        return call, completion.finish


@dataclass(frozen=True, slots=True)
class PaidAnswers:
    """Implements `advise.base.Advisor`: takes the answers that a rollout has already, and asks `advisor` for all
    others."""

    advisor: Advisor
    answers: Sequence[AdvisorCall]

    async def ask(self, prompt: Prompt) -> tuple[AdvisorCall, Literal["stop", "length"]]:
        for answer in self.answers:
            if (answer.purpose, answer.prompt) == (prompt.purpose, prompt.text):
                return answer, "stop"
        return await self.advisor.ask(prompt)
