"""One rollout's advice: propose three ideas, assess which are new, take them into the pool, select an experiment.

Invariant: every call whose tokens were sampled is in the result, parsed or not, because every one of them is trained
with the rollout's reward. What cannot be parsed ends the rollout there, with no experiment. An InfrastructureFault
passes through: then there is no rollout. A prompt for which there is no room is asked shorter. Nothing is remembered
here between rollouts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from pace_async.advise.base import Engine, PromptTooLong
from pace_async.advise.parsing import parse_assess, parse_propose, parse_select
from pace_async.advise.prompts import Detail, assess_prompt, propose_prompt, select_prompt, shorter
from pace_async.errors import CandidateFault
from pace_async.events import AdvisorCall, IdeaNote, Purpose
from pace_async.search.draws import derive
from pace_async.search.ideas import admit, recognised
from pace_async.search.state import Idea, SearchContext
from pace_async.task import Task


@dataclass(frozen=True, slots=True)
class Sampling:
    """How answers are sampled, and what is asked. `ideas_kept` caps the pool, `trials_shown` experiments stand under
    each idea, a summary where there are `summary_from`; no prompt has more than `max_prompt_tokens` (None: more than
    the engine's context has room for)."""

    seed: int
    max_tokens: int = 256
    temperature: float = 1.0
    ideas_kept: int = 5
    trials_shown: int = 2
    summary_from: int = 20
    max_prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """What was sampled and what it says. `pool` and `next_idea` are the pool after the proposals were taken in.
    `idea` and `experiment` are None, and `unparsed` says why, where an answer could not be parsed."""

    calls: tuple[AdvisorCall, ...]
    notes: tuple[IdeaNote, ...]
    pool: tuple[Idea, ...]
    next_idea: int
    idea: int | None = None
    experiment: str | None = None
    unparsed: str | None = None


async def advise(
    engine: Engine,
    task: Task,
    context: SearchContext,
    *,
    lease: int,
    next_idea: int,
    sampling: Sampling,
    now: Callable[[], float] = anyio.current_time,
) -> Advice:
    """Raises InfrastructureFault if the engine fails, PromptTooLong if even the shortest prompt is too long. Each
    call's seed derives from (run seed, lease, purpose). Each prompt leaves out only what has no room in it."""
    calls: list[AdvisorCall] = []
    pool, notes = context.ideas, tuple[IdeaNote, ...]()

    async def ask(purpose: Purpose, prompt: Callable[[Detail], str]) -> str:
        detail = Detail(sampling.trials_shown, sampling.summary_from)
        while True:
            try:
                call, finish = await _call(engine, purpose, prompt(detail), lease, sampling, now)
                break
            except PromptTooLong:
                less = shorter(detail, len(pool))
                if less is None:
                    raise
                detail = less
        calls.append(call)
        if finish == "length":
            raise CandidateFault("unparsed", f"{purpose} did not end within {sampling.max_tokens} tokens")
        return call.text

    try:
        text = await ask("propose", lambda detail: propose_prompt(task, context, detail))
        proposals = [hypothesis for hypothesis, _ in parse_propose(text)]
        text = await ask("assess", lambda detail: assess_prompt(task, context, proposals, detail))
        places = parse_assess(text, len(proposals), len(context.ideas))
        verdicts = [None if place is None else context.ideas[place - 1].number for place in places]
        verdicts = recognised(context.ideas, proposals, verdicts, next_idea)
        pool, notes, next_idea = admit(context.ideas, proposals, verdicts, next_idea, sampling.ideas_kept)
        chosen_from = replace(context, ideas=pool)
        text = await ask("select", lambda detail: select_prompt(task, chosen_from, detail))
        place, experiment = parse_select(text, len(pool))
        return Advice(tuple(calls), notes, pool, next_idea, pool[place - 1].number, experiment)
    except CandidateFault as fault:
        if fault.kind != "unparsed":
            raise
        return Advice(tuple(calls), notes, pool, next_idea, unparsed=fault.detail)


async def _call(
    engine: Engine, purpose: Purpose, prompt: str, lease: int, sampling: Sampling, now: Callable[[], float]
) -> tuple[AdvisorCall, str]:
    begun = now()
    prompt_ids = await engine.encode(prompt)
    if sampling.max_prompt_tokens is not None and len(prompt_ids) > sampling.max_prompt_tokens:
        raise PromptTooLong(len(prompt_ids), sampling.max_prompt_tokens)
    completion = await engine.generate(
        prompt_ids,
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        seed=derive(sampling.seed, lease, purpose),
    )
    call = AdvisorCall(
        purpose=purpose,
        prompt_ids=prompt_ids,
        completion_ids=completion.token_ids,
        logprobs=completion.logprobs,
        spans=completion.spans,
        text=await engine.decode(completion.token_ids),
        seconds=now() - begun,
    )
    return call, completion.finish
