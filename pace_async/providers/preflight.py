"""One call to each model before a run begins, so that a bad key costs nothing.

The call has the form of those of the run (a message of the system and one of the user, the options, the longest
answer), because a model may take one form and refuse another. Only its question is short.

Invariant: a problem that only a person can solve (a key, a name, a permission, a price) is reported in one sentence
before anything is written. A model that is only unreachable does not stop a run that has another model.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import anyio.to_thread
import stamina
import stamina.instrumentation

from pace_async.config import ProviderConfig, StopConfig
from pace_async.errors import CandidateFault, GaveUp, UsageError
from pace_async.events import ImplementerChecked
from pace_async.providers.base import IMPLEMENTER, Caller, ChatAnswer
from pace_async.providers.chat import LOOK_UP_S, LitellmChat, open_chats
from pace_async.providers.failures import CallFailed, remedy_of
from pace_async.providers.prices import Price

QUESTION = (
    {"role": "system", "content": "You answer in as few words as possible."},
    {"role": "user", "content": "Answer with the one word: ready"},
)
TIMEOUT_S = 120.0
"""For a model that thinks before it answers."""
TRIES = 3


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """The check of one model: its cost, or the failure."""

    model: str
    caller: Caller
    fact: ImplementerChecked | None
    failure: CallFailed | None
    price: Price | None
    remedy: str = ""
    is_listed_free: bool = False

    @property
    def reason(self) -> str:
        """Why it failed, as text."""
        if self.failure is None:
            return ""
        kind, detail = self.failure.kind.replace("_", " "), self.failure.detail.rstrip(".")
        return f"{kind} ({detail})" if detail else kind


async def check_models(models: Sequence[str], config: ProviderConfig, caller: Caller = IMPLEMENTER) -> list[ModelCheck]:
    """Call each model once, with a few retries for transient failures."""
    async with open_chats(models, config) as chats:
        return [await _check(chat, config, caller) for chat in chats]


def refuse_unless_ready(checks: Sequence[ModelCheck], stop: StopConfig) -> None:
    """Raises UsageError for a problem that a person must solve, GaveUp if no model answers. With a budget a model must
    have a price, and a listed one of 0 must be confirmed: some lists have 0 for what they do not know."""
    for checked in checks:
        if checked.failure is not None and checked.failure.permanent:
            raise UsageError(f"{checked.caller.flag(checked.model)}: {checked.reason}; {checked.remedy}.")
        if stop.budget is not None:
            refuse_unless_priced(checked.model, checked.caller, checked.price, checked.is_listed_free)
    if checks and all(checked.failure is not None for checked in checks):
        first = checks[0]
        raise GaveUp(f"No {first.caller.role} answers ({first.model}: {first.reason}): {first.remedy}.")


def refuse_unless_priced(model: str, caller: Caller, price: Price | None, is_listed_free: bool) -> None:
    """Raises UsageError for a model whose calls a budget cannot count, with the settings that say its price."""
    if price is None or is_listed_free:
        listed = "no price is listed for that name" if price is None else "the listed price is 0"
        raise UsageError(
            f"--budget needs to know what {model} costs, and {listed}: give "
            f"--set {caller.role}.price_per_million_in=USD "
            f"--set {caller.role}.price_per_million_out=USD (0 if it is free)."
        )


async def _check(chat: LitellmChat, config: ProviderConfig, caller: Caller) -> ModelCheck:
    stamina.instrumentation.set_on_retry_hooks(())  # by default it writes each failure to the terminal
    room = config.longest_answer
    worst = chat.price.worst_case(QUESTION, room) if chat.price is not None else 0.0
    began, lost = time.perf_counter(), 0.0
    answer: ChatAnswer | None = None
    try:
        async for attempt in stamina.retry_context(
            on=lambda error: isinstance(error, CallFailed) and not error.permanent and error.kind != "timeout",
            attempts=TRIES,
            timeout=None,
            wait_initial=0.2,
            wait_jitter=0.1,
        ):
            with attempt:
                try:
                    answer = await chat.ask(QUESTION, max_tokens=room, timeout_s=min(TIMEOUT_S, config.timeout_s))
                except CandidateFault as fault:
                    if fault.kind == "prompt_too_long":  # no prompt of a run is shorter
                        raise CallFailed("bad_request", fault.detail) from None
                    answer = None  # a refusal is an answer too
                except CallFailed as failure:
                    lost += failure.cost_usd(worst)
                    raise
    except CallFailed as failure:
        missing = await _missing_keys(chat) if failure.kind not in ("unknown_model", "refused_connection") else []
        if missing and (config.api_base is None or "key" in failure.detail.lower()):
            failure = CallFailed("missing_key", failure.detail)
        remedy = _remedy(failure, missing, config, caller)
        return ModelCheck(chat.model, caller, None, failure, chat.price, remedy, chat.is_listed_free)
    paid = 0.0 if answer is None else worst if answer.cost_usd is None else answer.cost_usd
    fact = ImplementerChecked(
        model=chat.model,
        prompt_tokens=answer.prompt_tokens if answer is not None else 0,
        completion_tokens=answer.completion_tokens if answer is not None else 0,
        cost_usd=lost + paid,
        seconds=time.perf_counter() - began,
        at=time.time(),
        role=caller.role,
    )
    return ModelCheck(chat.model, caller, fact, None, chat.price, is_listed_free=chat.is_listed_free)


async def _missing_keys(chat: LitellmChat) -> list[str]:
    with anyio.move_on_after(LOOK_UP_S):
        return await anyio.to_thread.run_sync(chat.missing_keys, abandon_on_cancel=True)
    return []


def _remedy(failure: CallFailed, missing: Sequence[str], config: ProviderConfig, caller: Caller) -> str:
    if missing:
        return f"set {' or '.join(missing)} in the environment"
    where = config.api_base or "the provider"
    return remedy_of(failure, caller) or f"see whether {where} is up, and try again"
