"""A run on simulated stages that goes on in a thread, as far as a test lets it."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal

from pace_async.config import Config
from pace_async.evaluate.base import Evaluation, EvaluationRequest, Evaluator, evaluate
from pace_async.evaluate.identities import InTaskEvaluator
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.runs import FAULTLESS
from pace_async.simulate.stages import World
from tests.support.changed_stages import change_stages
from tests.support.simulated_runs import settings, simulated


@dataclass
class Metered(InTaskEvaluator):
    """Evaluates as many programs as it was allowed to."""

    inner: Evaluator
    allowed: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(0))

    async def run(self, request: EvaluationRequest) -> Evaluation:
        await self.allowed.acquire()
        return await evaluate(self.inner, request)


@dataclass(frozen=True)
class Going:
    """A run in `folder`. Each candidate takes one evaluation."""

    folder: Path
    portal: BlockingPortal
    evaluator: Metered

    def let(self, candidates: int) -> None:
        """Let so many more candidates complete."""
        for _ in range(candidates):
            self.portal.call(self.evaluator.allowed.release)


@contextmanager
def going(folder: Path, candidates: int) -> Generator[Going]:
    """A run of so many candidates that has begun, and has none yet. It is stopped at the end, however far it is."""
    config = settings(stop__candidates=candidates, search__threads=2, learner__group_size=4, learner__k=2)
    with start_blocking_portal() as portal:
        ended, evaluator = portal.start_task(_search, folder, config)
        try:
            yield Going(folder, portal, evaluator)
        finally:
            ended.cancel()


async def _search(folder: Path, config: Config, *, task_status: TaskStatus[Metered]) -> None:
    async with simulated(folder, config, World(), FAULTLESS) as run:
        evaluator = Metered(run.core.stages.evaluator)
        change_stages(run.core, evaluator=evaluator)
        task_status.started(evaluator)
        await drive(run.core)
