"""A run one of whose stages does not let itself be cancelled: `python -m tests.faults.stubborn FOLDER`.

Prints a word when an evaluation has begun, when the run drains, and when the evaluation was cancelled and goes on.
"""

import sys
from pathlib import Path
from typing import TypeVar

import anyio

from pace_async.children import die_with_parent
from pace_async.evaluate.base import Evaluation, EvaluationRequest
from pace_async.evaluate.identities import InTaskEvaluator
from pace_async.events import Fact, RunStateChanged
from pace_async.population.base import Population, Question
from pace_async.runtime.run.clock import RealClock
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.stages import World
from tests.support.changed_stages import change_stages
from tests.support.simulated_runs import settings, simulated

T = TypeVar("T")


class Stubborn(InTaskEvaluator):
    """An evaluator that never ends."""

    async def run(self, request: EvaluationRequest) -> Evaluation:
        print("evaluating", flush=True)
        try:
            await anyio.sleep_forever()
        finally:
            print("cancelled", flush=True)
            with anyio.CancelScope(shield=True):
                await anyio.sleep_forever()
        raise AssertionError


class Telling:
    """The population, which reports when the run drains."""

    def __init__(self, inner: Population) -> None:
        self._inner = inner

    async def read(self, question: Question[T]) -> T:
        return await self._inner.read(question)

    async def commit(self, *facts: Fact) -> None:
        await self._inner.commit(*facts)
        if any(isinstance(fact, RunStateChanged) and fact.state == "draining" for fact in facts):
            print("draining", flush=True)


async def main(folder: Path) -> None:
    config = settings(search__threads=1, stop__candidates=8)
    async with simulated(folder, config, World()) as run:
        run.core.recorder.population = Telling(run.core.recorder.population)
        change_stages(run.core, evaluator=Stubborn(), clock=RealClock())
        await drive(run.core, signals=True)


if __name__ == "__main__":
    die_with_parent()
    anyio.run(main, Path(sys.argv[1]))
