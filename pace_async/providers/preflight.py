"""One short call to each model before a run begins, so that a bad key costs nothing.

Invariant: a problem that only a person can solve (a key, a name, a permission, a price) is reported in one sentence
before anything is written. A model that is only unreachable does not stop a run that has another model.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import stamina
import stamina.instrumentation

from pace_async.config import ProviderConfig, StopConfig
from pace_async.errors import CandidateFault, GaveUp, UsageError
from pace_async.events import ImplementerChecked
from pace_async.providers.base import IMPLEMENTER, Caller
from pace_async.providers.chat import ChatAnswer, LitellmChat, open_chats
from pace_async.providers.failures import CallFailed
from pace_async.providers.prices import Price

QUESTION = ({"role": "user", "content": "Answer with the one word: ready"},)
TOKENS = 64
TIMEOUT_S = 30.0
TRIES = 3


@dataclass(frozen=True, slots=True)
class Checked:
    """The check of one model: its cost, or the failure."""

    model: str
    caller: Caller
    fact: ImplementerChecked | None
    failure: CallFailed | None
    price: Price | None
    remedy: str = ""

    @property
    def reason(self) -> str:
        """Why it failed, as text."""
        if self.failure is None:
            return ""
        kind, detail = self.failure.kind.replace("_", " "), self.failure.detail.rstrip(".")
        return f"{kind} ({detail})" if detail else kind


async def check_models(models: Sequence[str], config: ProviderConfig, caller: Caller = IMPLEMENTER) -> list[Checked]:
    """Call each model once, with a few retries for transient failures."""
    async with open_chats(models, config) as chats:
        return [await _check(chat, config, caller) for chat in chats]


def refuse_unless_ready(checks: Sequence[Checked], stop: StopConfig) -> None:
    """Raises UsageError for a problem that a person must solve, GaveUp if no model answers."""
    for checked in checks:
        if checked.failure is not None and checked.failure.permanent:
            raise UsageError(f"{checked.caller.flag(checked.model)}: {checked.reason}; {checked.remedy}.")
        if stop.budget is not None and checked.price is None:
            raise UsageError(
                f"--budget needs to know what {checked.model} costs, and no price is listed: give "
                f"--set {checked.caller.role}.price_per_million_in=USD "
                f"--set {checked.caller.role}.price_per_million_out=USD (0 if it is free)."
            )
    if checks and all(checked.failure is not None for checked in checks):
        first = checks[0]
        raise GaveUp(f"No {first.caller.role} answers ({first.model}: {first.reason}): {first.remedy}.")


async def _check(chat: LitellmChat, config: ProviderConfig, caller: Caller) -> Checked:
    stamina.instrumentation.set_on_retry_hooks(())  # by default it writes each failure to the terminal
    worst = chat.price.worst_case(QUESTION, TOKENS) if chat.price is not None else 0.0
    began, lost = time.perf_counter(), 0.0
    answer: ChatAnswer | None = None
    try:
        async for attempt in stamina.retry_context(
            on=lambda error: isinstance(error, CallFailed) and not error.permanent,
            attempts=TRIES,
            timeout=None,
            wait_initial=0.2,
            wait_jitter=0.1,
        ):
            with attempt:
                try:
                    answer = await chat.ask(QUESTION, max_tokens=TOKENS, timeout_s=min(TIMEOUT_S, config.timeout_s))
                except CandidateFault:
                    answer = None  # a refusal is an answer too
                except CallFailed as failure:
                    lost += worst if failure.charged is None else 0.0
                    raise
    except CallFailed as failure:
        missing = chat.missing_keys() if failure.kind not in ("unknown_model", "refused_connection") else []
        if missing and (config.api_base is None or "key" in failure.detail.lower()):
            failure = CallFailed("missing_key", failure.detail)
        return Checked(chat.model, caller, None, failure, chat.price, _remedy(failure, missing, config, caller))
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
    return Checked(chat.model, caller, fact, None, chat.price)


def _remedy(failure: CallFailed, missing: Sequence[str], config: ProviderConfig, caller: Caller) -> str:
    if missing:
        return f"set {' or '.join(missing)} in the environment"
    remedies = {
        "bad_key": "put a valid key of this provider into the environment",
        "no_permission": "the key may not use this model: choose another, or ask for access",
        "no_credit": "the account has no credit left: top it up",
        "unknown_model": "see https://docs.litellm.ai/docs/providers for how models are named",
        "bad_request": f"see whether {caller.role}.options and {caller.role}.max_tokens suit this model",
        "not_installed": "install the package that litellm names",
    }
    where = config.api_base or "the provider"
    return remedies.get(failure.kind, f"see whether {where} is up, and try again")
