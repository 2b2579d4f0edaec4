"""The implementer of a run: a built-in one, or a pool of one or several weighted models and built-in ones."""

import time
from typing import Protocol

from pace_async.config import FaultsConfig, ImplementerConfig
from pace_async.errors import CandidateFault
from pace_async.events import ImplementerCalled
from pace_async.implement.base import Experiment, ImplementedProgram, Implementer
from pace_async.providers.base import IMPLEMENTER, CallLedger, Share
from pace_async.providers.pool import CallLimits, ModelPool, ModelQuestion
from pace_async.search.state import Member
from pace_async.task import Task


class Maker(Protocol):
    """Makes one try."""

    async def make(self, task: Task, parent: Member, experiment: Experiment, timeout_s: float) -> ImplementedProgram:
        """Raises CandidateFault (Unusable for a model's answer), CallFailed, BudgetReached, and InfrastructureFault for
        an answer that must not be stored."""
        ...


class BuiltIn:
    """A built-in implementer under its name. It costs nothing and fails only by the candidate's fault, so it needs no
    pool where it stands alone. Implements `Maker` and `implement.base.Implementer`."""

    def __init__(self, name: str, implementer: Implementer, ledger: CallLedger) -> None:
        self._name = name
        self._implementer = implementer
        self._ledger = ledger

    async def make(self, task: Task, parent: Member, experiment: Experiment, timeout_s: float) -> ImplementedProgram:
        return await self.implement(task, parent, experiment)

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> ImplementedProgram:
        began = time.perf_counter()
        outcome = "ok"
        try:
            return await self._implementer.implement(task, parent, experiment)
        except CandidateFault as fault:
            outcome = fault.kind
            raise
        finally:
            seconds = time.perf_counter() - began
            await self._ledger.settle(
                ImplementerCalled(experiment.lease, self._name, outcome, 0, 0, 0.0, seconds, time.time())
            )


class ImplementerPool:
    """Implements `implement.base.Implementer`. A bandit's choice is preferred to the drawn model."""

    def __init__(
        self,
        shares: tuple[Share, ...],
        makers: dict[str, Maker],
        ledger: CallLedger,
        seed: int,
        config: ImplementerConfig,
        faults: FaultsConfig,
    ) -> None:
        self._makers = makers
        self._pool = ModelPool(shares, ledger, seed, CallLimits.of(config, faults), IMPLEMENTER)

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> ImplementedProgram:
        async def ask(model: str, timeout_s: float) -> ImplementedProgram:
            return await self._makers[model].make(task, parent, experiment, timeout_s)

        return await self._pool.answer(ModelQuestion(experiment.lease, ask, experiment.model))
