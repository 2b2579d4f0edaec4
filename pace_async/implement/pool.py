"""The implementer of a run: one model or several by weight, retried within one deadline, paused while all are down.

    a call fails          tried again after a wait (the provider's own Retry-After, where it names one), until the
                          implementation's deadline; then, if the model has answered others meanwhile, this lease is
                          given up: InfrastructureFault
    a model is down       it answered nobody meanwhile, or a person must act: leases drawn to it go to another one, and
                          it is asked again from time to time
    all models are down   the run pauses: one call at a time goes out, after growing waits, and the rest wait for it;
                          it asks the model whose turn to be asked again comes first, whichever was drawn, so that one
                          that never comes back hides no other; beyond the patience set, GaveUp

Invariant: what is the candidate's fault is never retried, and what is the service's is never the candidate's fault.
"""

import itertools
import random
from dataclasses import dataclass

import anyio
import stamina
import stamina.instrumentation

from pace_async.config import Faults, ImplementerConfig
from pace_async.errors import CandidateFault, GaveUp, InfrastructureFault
from pace_async.implement.base import Experiment, Implemented, Ledger
from pace_async.implement.failures import CallFailed
from pace_async.implement.makers import Maker
from pace_async.implement.shares import Share, draw
from pace_async.search.state import Member
from pace_async.task import Task

LONGEST_WAIT_S = 30.0


@dataclass(slots=True)
class _Health:
    """Of one model; times of anyio's clock. `failing_since` is None unless it has failed since it last answered."""

    answered_at: float = float("-inf")
    failing_since: float | None = None
    failures: int = 0
    down: bool = False
    ask_again_at: float = 0.0
    waits: int = 0


@dataclass(frozen=True, slots=True)
class _Job:
    task: Task
    parent: Member
    experiment: Experiment


class Pool:
    """Implements `implement.base.Implementer`."""

    def __init__(
        self,
        shares: tuple[Share, ...],
        makers: dict[str, Maker],
        ledger: Ledger,
        seed: int,
        config: ImplementerConfig,
        faults: Faults,
    ) -> None:
        self._shares = shares
        self._makers = makers
        self._ledger = ledger
        self._seed = seed
        self._config = config
        self._faults = faults
        self._health = {share.model: _Health() for share in shares}
        self._probing = anyio.Lock()
        stamina.instrumentation.set_on_retry_hooks(())  # by default it writes each failure to the terminal

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> Implemented:
        job = _Job(task, parent, experiment)
        while True:
            model = self._choose(experiment)
            if model is None:
                done = await self._pause(job)
            elif self._health[model].down:
                done = await self._ask_again(model, job)
            else:
                done = await self._patiently(model, job)
            if done is not None:
                return done

    def _choose(self, experiment: Experiment) -> str | None:
        """The model chosen for an experiment, or drawn for its lease, among those that are up or due to be asked again;
        None while all are down."""
        if all(health.down for health in self._health.values()):
            return None
        now, busy = anyio.current_time(), self._probing.locked()
        down = {model for model, health in self._health.items() if health.down and (busy or health.ask_again_at > now)}
        if experiment.model in self._health and experiment.model not in down:
            return experiment.model
        share = draw(self._shares, self._seed, experiment.lease, down)
        return None if share is None else share.model

    async def _patiently(self, model: str, job: _Job) -> Implemented | None:
        """With retries; None where the model turned out to be down. No try is begun that could not have its full time:
        one that is cut short may be charged for and brings nothing."""
        began, health = anyio.current_time(), self._health[model]
        deadline = began + min(self._config.deadline_s, self._faults.patience_s)
        tries = itertools.count()

        def wait_before_retry(error: Exception) -> bool | float:
            if not isinstance(error, CallFailed) or error.permanent or health.down:
                return False
            backoff = min(LONGEST_WAIT_S, self._faults.backoff_s * 2.0 ** min(next(tries), 16))
            wait = backoff * random.uniform(0.5, 1.0) if error.retry_after is None else error.retry_after
            return wait if anyio.current_time() + wait + self._config.timeout_s <= deadline else False

        try:
            async for attempt in stamina.retry_context(on=wait_before_retry, attempts=None, timeout=None):
                with attempt:
                    return await self._once(model, job, deadline - anyio.current_time())
        except CallFailed as failure:
            meanwhile = health.answered_at > began and not failure.permanent
            of_this_prompt = failure.kind == "bad_request" and health.failures == 1
            if meanwhile or of_this_prompt:
                raise InfrastructureFault(failure.kind, f"{model}: {failure.detail}") from None
            await self._is_down(model, failure)
        return None

    async def _ask_again(self, model: str, job: _Job) -> Implemented | None:
        """One try of a model that was down; None where it still is."""
        try:
            async with self._probing:
                return await self._once(model, job, self._config.timeout_s)
        except CallFailed:
            self._postpone(model)
            return None

    async def _pause(self, job: _Job) -> Implemented | None:
        """Wait for a turn, wait a little longer than last time, and ask once; None to look again."""
        async with self._probing:
            if not all(each.down for each in self._health.values()):
                return None
            model, health = min(self._health.items(), key=lambda known: known[1].ask_again_at)
            left = self._patience_left()
            if left <= 0:
                raise GaveUp(
                    f"No implementer answered for {self._faults.patience_s:.0f} s ({', '.join(self._health)}): see "
                    "`pace doctor --implementer MODEL`; `pace resume` goes on from what is committed."
                )
            await anyio.sleep(min(left, max(0.0, health.ask_again_at - anyio.current_time())))
            try:
                return await self._once(model, job, max(1.0, min(self._config.timeout_s, left)))
            except CallFailed:
                self._postpone(model)
                return None

    async def _once(self, model: str, job: _Job, timeout_s: float) -> Implemented:
        """One call. Whatever comes back as an answer, a bad one too, shows that the model is up."""
        health = self._health[model]
        try:
            timeout_s = max(0.001, min(timeout_s, self._config.timeout_s))
            done = await self._makers[model].make(job.task, job.parent, job.experiment, timeout_s)
        except CallFailed as failure:
            health.failures += 1
            if health.failing_since is None:
                health.failing_since = anyio.current_time()
            await self._ledger.fault(failure.kind, f"{model}: {failure.detail}", job.experiment.lease)
            raise
        except (CandidateFault, InfrastructureFault):
            await self._is_up(model)
            raise
        await self._is_up(model)
        return done

    async def _is_up(self, model: str) -> None:
        health = self._health[model]
        was_down = health.down
        health.answered_at, health.failing_since = anyio.current_time(), None
        health.down, health.waits, health.failures = False, 0, 0
        if was_down:
            await self._ledger.fault("provider_back", f"{model} answers again", None)

    async def _is_down(self, model: str, failure: CallFailed) -> None:
        health = self._health[model]
        if health.down:
            return
        health.down = True
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

    def _patience_left(self) -> float:
        """Seconds until the run gives up: patience is counted from when the last of the models began to fail."""
        since = max(health.failing_since or 0.0 for health in self._health.values())
        return since + self._faults.patience_s - anyio.current_time()
