"""One rollout's advice: propose three ideas, assess which are new, take them into the pool, select an experiment.

Invariant: every call whose tokens were sampled is in the result, parsed or not, because every one of them is trained
with the rollout's reward. What cannot be parsed ends the rollout there, with no experiment. An InfrastructureFault
passes through: then there is no rollout. Nothing is remembered here between rollouts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from pace_async.advise.base import Engine
from pace_async.advise.parsing import parse_assess, parse_propose, parse_select
from pace_async.advise.prompts import assess_prompt, propose_prompt, select_prompt
from pace_async.errors import CandidateFault
from pace_async.events import AdvisorCall, IdeaNote, Purpose
from pace_async.search.draws import derive
from pace_async.search.ideas import admit, recognised
from pace_async.search.state import Idea, SearchContext
from pace_async.task import Task


@dataclass(frozen=True, slots=True)
class Sampling:
    """How answers are sampled. `ideas_kept` caps the pool, `trials_shown` experiments stand under each idea."""

    seed: int
    max_tokens: int = 256
    temperature: float = 1.0
    ideas_kept: int = 5
    trials_shown: int = 2


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
    """Raises InfrastructureFault if the engine fails. Each call's seed derives from (run seed, lease, purpose)."""
    advice = Advice(calls=(), notes=(), pool=context.ideas, next_idea=next_idea)

    async def ask(purpose: Purpose, prompt: str) -> str:
        nonlocal advice
        call, finish = await _call(engine, purpose, prompt, lease, sampling, now)
        advice = replace(advice, calls=(*advice.calls, call))
        if finish == "length":
            raise CandidateFault("unparsed", f"{purpose} did not end within {sampling.max_tokens} tokens")
        return call.text

    try:
        text = await ask("propose", propose_prompt(task, context, sampling.trials_shown))
        proposals = [hypothesis for hypothesis, _ in parse_propose(text)]
        text = await ask("assess", assess_prompt(task, context, proposals, sampling.trials_shown))
        places = parse_assess(text, len(proposals), len(context.ideas))
        verdicts = [None if place is None else context.ideas[place - 1].number for place in places]
        verdicts = recognised(context.ideas, proposals, verdicts, next_idea)
        pool, notes, next_idea = admit(context.ideas, proposals, verdicts, next_idea, sampling.ideas_kept)
        advice = replace(advice, notes=notes, pool=pool, next_idea=next_idea)
        text = await ask("select", select_prompt(task, replace(context, ideas=pool), sampling.trials_shown))
        place, experiment = parse_select(text, len(pool))
        return replace(advice, idea=pool[place - 1].number, experiment=experiment)
    except CandidateFault as fault:
        if fault.kind != "unparsed":
            raise
        return replace(advice, unparsed=fault.detail)


async def _call(
    engine: Engine, purpose: Purpose, prompt: str, lease: int, sampling: Sampling, now: Callable[[], float]
) -> tuple[AdvisorCall, str]:
    begun = now()
    prompt_ids = await engine.encode(prompt)
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
