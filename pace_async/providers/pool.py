"""One or several weighted models: retries up to a deadline, a pause while all are down.

    a call fails          It is retried after a wait (the provider's Retry-After, if given) until the deadline. After
                          that, if the model has answered other calls meanwhile, the lease fails with
                          InfrastructureFault.
    a model is down       It answered no call meanwhile, or a person must act. Its leases go to other models, and it is
                          called again from time to time.
    all models are down   The run pauses. One call at a time goes out, after growing waits, and all others wait for it.
                          It goes to the model whose next try is due first, whichever model was drawn, so that a model
                          that never recovers hides no other. After the patience, GaveUp. A failure that no retry
                          helps is not waited out: if each model's last REFUSALS calls or more failed so, GaveUp.
    a context is too short    The first REFUSALS prompts of a model, and no other, were too long for it: GaveUp, because
                          the task is, and not a candidate.

The model of a lease is drawn by weight. The draw depends only on the run's seed and the lease, so a resumed run gives
each lease to the same model, if the models are the same.

Invariant: a candidate's fault is never retried, and a service's fault never counts as the candidate's.
"""

import itertools
import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio
import stamina
import stamina.instrumentation

from pace_async.config import FaultsConfig, ProviderConfig
from pace_async.errors import CandidateFault, GaveUp, InfrastructureFault, StageFault
from pace_async.providers.base import Caller, CallLedger, Share
from pace_async.providers.failures import CallFailed, remedy_of
from pace_async.search.draws import generator

LONGEST_WAIT_S = 30.0
REFUSALS = 3
"""Failed calls in a row after which a model does not answer because a person must act."""
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ModelQuestion(Generic[R]):
    """What a lease wants to know. `model` is preferred to the drawn one while it is up. `ask` makes one call, given the
    model and the seconds that it may take. It raises CandidateFault, CallFailed, BudgetReached, and InfrastructureFault
    for an answer that must not be stored."""

    lease: int
    ask: Callable[[str, float], Awaitable[R]]
    model: str | None = None


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How long one call, one answer and the whole run wait."""

    timeout_s: float
    deadline_s: float
    faults: FaultsConfig

    @classmethod
    def of(cls, config: ProviderConfig, faults: FaultsConfig) -> "CallLimits":
        return cls(config.timeout_s, config.deadline_s, faults)


@dataclass(slots=True)
class _Health:
    """Health of one model. Times are anyio's clock. `failing_since` is None unless it failed after its last answer, or
    is down: it may answer one call while the failure of another is being recorded."""

    answered_at: float = float("-inf")
    failing_since: float | None = None
    failures: int = 0
    down: bool = False
    ask_again_at: float = 0.0
    waits: int = 0
    refusals: int = 0
    last: CallFailed | None = None
    has_room: bool = False
    too_long: int = 0


class ModelPool:
    """Models that can replace one another. `caller` is who asks them."""

    def __init__(
        self, shares: tuple[Share, ...], ledger: CallLedger, seed: int, limits: CallLimits, caller: Caller
    ) -> None:
        self._shares = shares
        self._ledger = ledger
        self._seed = seed
        self._limits = limits
        self._faults = limits.faults
        self._caller = caller
        self._health = {share.model: _Health() for share in shares}
        self._probing = anyio.Lock()
        stamina.instrumentation.set_on_retry_hooks(())  # by default it writes each failure to the terminal

    async def answer(self, question: ModelQuestion[R]) -> R:
        """The answer, from the first model that gives one. Raises CandidateFault, BudgetReached, InfrastructureFault if
        only this lease's calls fail, GaveUp if no model answered within the patience."""
        while True:
            model = self._choose(question)
            if model is None:
                done = await self._pause(question)
            elif self._health[model].down:
                done = await self._ask_again(model, question)
            else:
                done = await self._patiently(model, question)
            if done is not None:
                return done

    def _choose(self, question: ModelQuestion[R]) -> str | None:
        """The preferred model, or the one drawn for the lease, among models that are up or due for a new try. None
        while all are down."""
        if all(health.down for health in self._health.values()):
            return None
        now, busy = anyio.current_time(), self._probing.locked()
        down = {model for model, health in self._health.items() if health.down and (busy or health.ask_again_at > now)}
        if question.model in self._health and question.model not in down:
            return question.model
        share = draw(self._shares, self._seed, question.lease, down)
        return None if share is None else share.model

    async def _patiently(self, model: str, question: ModelQuestion[R]) -> R | None:
        """Call with retries. None if the model is down. A try starts only if it has its full time, as the first one
        always has: one that is cut short may be charged and brings nothing."""
        began, health = anyio.current_time(), self._health[model]
        deadline = began + max(self._limits.timeout_s, min(self._limits.deadline_s, self._faults.patience_s))
        tries = itertools.count()

        def wait_before_retry(error: Exception) -> bool | float:
            if not isinstance(error, CallFailed) or error.permanent or error.of_this_prompt or health.down:
                return False
            backoff = min(LONGEST_WAIT_S, self._faults.backoff_s * 2.0 ** min(next(tries), 16))
            wait = backoff * random.uniform(0.5, 1.0) if error.retry_after is None else error.retry_after
            return wait if anyio.current_time() + wait + self._limits.timeout_s <= deadline else False

        try:
            async for attempt in stamina.retry_context(on=wait_before_retry, attempts=None, timeout=None):
                with attempt:
                    return await self._once(model, question, self._limits.timeout_s)
        except CallFailed as failure:
            meanwhile = health.answered_at > began and not failure.permanent
            of_this_prompt = failure.of_this_prompt and health.failures == 1
            if meanwhile or of_this_prompt:
                raise InfrastructureFault(failure.kind, f"{model}: {failure.detail}") from None
            await self._is_down(model, failure)
        return None

    async def _ask_again(self, model: str, question: ModelQuestion[R]) -> R | None:
        """One try of a model that was down. None if it still is."""
        try:
            async with self._probing:
                return await self._once(model, question, self._limits.timeout_s)
        except CallFailed:
            self._postpone(model)
            return None

    async def _pause(self, question: ModelQuestion[R]) -> R | None:
        """Wait for the turn, wait longer than last time, and call once. None: choose a model again."""
        async with self._probing:
            if not all(each.down for each in self._health.values()):
                return None
            model, health = min(self._health.items(), key=lambda known: known[1].ask_again_at)
            left = self._patience_left()
            refused = all(each.refusals >= REFUSALS for each in self._health.values())
            if left <= 0 or refused:
                raise GaveUp(self._last_words(refused))
            await anyio.sleep(min(left, max(0.0, health.ask_again_at - anyio.current_time())))
            try:
                return await self._once(model, question, max(1.0, min(self._limits.timeout_s, left)))
            except CallFailed:
                self._postpone(model)
                return None

    async def _once(self, model: str, question: ModelQuestion[R], timeout_s: float) -> R:
        """One call. Any answer, even a bad one, shows that the model is up."""
        health = self._health[model]
        try:
            timeout_s = max(0.001, min(timeout_s, self._limits.timeout_s))
            done = await question.ask(model, timeout_s)
        except CallFailed as failure:
            health.failures += 1
            health.refusals, health.last = health.refusals + 1 if failure.permanent else 0, failure
            if health.failing_since is None:
                health.failing_since = anyio.current_time()
            await self._ledger.fault(failure.kind, f"{model}: {failure.detail}", question.lease)
            raise
        except (CandidateFault, InfrastructureFault) as fault:
            await self._is_up(model)
            self._refuse_short_context(model, fault)
            raise
        health.has_room = True
        await self._is_up(model)
        return done

    def _refuse_short_context(self, model: str, fault: StageFault) -> None:
        """Raises GaveUp if no prompt of the run had room in the model's context so far."""
        health = self._health[model]
        if fault.kind != "prompt_too_long":
            health.has_room = True
            return
        health.too_long += 1
        if not health.has_room and health.too_long >= REFUSALS:
            raise GaveUp(
                f"{model} has no room for the prompts of this task ({fault.detail.rstrip('.')}): give it a longer "
                f"context, or choose a model that has one with {self._caller.flag('MODEL')}; `pace resume` goes on "
                "from what is committed."
            )

    async def _is_up(self, model: str) -> None:
        health = self._health[model]
        was_down = health.down
        health.answered_at, health.failing_since = anyio.current_time(), None
        health.down, health.waits, health.failures, health.refusals = False, 0, 0, 0
        if was_down:
            await self._ledger.fault("provider_back", f"{model} answers again", None)

    async def _is_down(self, model: str, failure: CallFailed) -> None:
        health = self._health[model]
        if health.down:
            return
        health.down = True
        if health.failing_since is None:
            health.failing_since = anyio.current_time()
        self._postpone(model)
        if all(each.down for each in self._health.values()):
            await self._ledger.fault("all_providers_down", f"the run pauses ({model}: {failure})", None)
        else:
            await self._ledger.fault("provider_down", f"{model}: {failure}", None)

    def _postpone(self, model: str) -> None:
        health = self._health[model]
        wait = min(LONGEST_WAIT_S, self._faults.backoff_s * 2.0**health.waits)
        health.waits = min(health.waits + 1, 16)
        health.ask_again_at = anyio.current_time() + wait

    def _last_words(self, refused: bool) -> str:
        """Why the run ends: the last failure of each model, in its provider's words, and what to do."""
        last = {model: health.last for model, health in self._health.items() if health.last is not None}
        why = "; ".join(f"{model}: {failure}".rstrip(".") for model, failure in last.items())
        remedies = dict.fromkeys(remedy_of(failure, self._caller) for failure in last.values())
        remedy = "; ".join(filter(None, remedies)) if refused else ""
        waited = min(self._faults.patience_s, self._faults.patience_s - self._patience_left())
        doctor = f"see `pace doctor {self._caller.flag('MODEL')}`; `pace resume` goes on from what is committed."
        return f"No {self._caller.role} answered for {waited:.0f} s ({why}): {remedy + '; ' if remedy else ''}{doctor}"

    def _patience_left(self) -> float:
        """Seconds until the run gives up. Patience counts from the time when the last model began to fail."""
        since = max(health.failing_since for health in self._health.values() if health.failing_since is not None)
        return since + self._faults.patience_s - anyio.current_time()


def draw(shares: tuple[Share, ...], seed: int, lease: int, down: Collection[str] = ()) -> Share | None:
    """The share drawn for `lease`. If its model is `down`, one drawn among the others. None if all are down."""
    left = list(shares)
    generate = generator(seed, lease, "implementer")
    while left:
        chosen = generate.choices(left, [share.weight for share in left])[0]
        if chosen.model not in down:
            return chosen
        left.remove(chosen)
    return None
