"""A population and stages with a failpoint before and after each call that does work. The process is killed there."""

import os
import signal
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pace_async.advise.base import Completion, Engine
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest, Evaluator, Machines
from pace_async.events import Fact, GroupEnded, GroupShipped
from pace_async.implement.base import Experiment, ImplementedProgram, Implementer
from pace_async.learn.base import RESTORED, Learner, Step
from pace_async.population.base import Population, Question
from pace_async.publish.base import Publisher, Receipt
from pace_async.search.state import Member
from pace_async.simulate.stages import WEIGHTS
from pace_async.task import Task

T = TypeVar("T")


class Failpoints:
    """Counts where the process comes by, and kills it when it comes for the `number`-th time, from 1, to `name`. The
    name `any` stands for all of them."""

    def __init__(self, name: str, number: int) -> None:
        self._name, self._number = name, number
        self._passed: Counter[str] = Counter()

    def __call__(self, name: str) -> None:
        self._passed.update((name, "any"))
        if self._name in (name, "any") and self._passed[self._name] == self._number:
            os.kill(os.getpid(), signal.SIGKILL)

    async def around(self, name: str, call: Awaitable[T]) -> T:
        """What the call returns, with a failpoint before it and another after it."""
        self(f"{name} before")
        result = await call
        self(f"{name} after")
        return result

    def next_is_fatal(self, name: str) -> bool:
        """Whether the process dies when it comes to `name` the next time, so that something can be left half done."""
        reached = self._passed["any"] + 1 if self._name == "any" else self._passed[name] + 1
        return self._name in (name, "any") and reached == self._number


@dataclass
class FailingPopulation:
    """The commits of a choice to go back and of the version that it makes have names of their own."""

    inner: Population
    at: Failpoints

    async def commit(self, *facts: Fact) -> None:
        await self.at.around(_name_of(facts), self.inner.commit(*facts))

    async def read(self, question: Question[T]) -> T:
        return await self.inner.read(question)


def _name_of(facts: Sequence[Fact]) -> str:
    for fact in facts:
        if isinstance(fact, GroupShipped):
            return "ship" if fact.restores is None else "go back"
        if isinstance(fact, GroupEnded) and fact.restored is not None:
            return "went back"
    return "commit"


@dataclass
class FailingEngine:
    """Its failpoints are about generating."""

    inner: Engine
    at: Failpoints

    async def encode(self, text: str) -> tuple[int, ...]:
        return await self.inner.encode(text)

    async def decode(self, token_ids: tuple[int, ...]) -> str:
        return await self.inner.decode(token_ids)

    async def generate(
        self, prompt_ids: tuple[int, ...], *, max_tokens: int, temperature: float, seed: int
    ) -> Completion:
        answer = self.inner.generate(prompt_ids, max_tokens=max_tokens, temperature=temperature, seed=seed)
        return await self.at.around("advise", answer)


@dataclass
class FailingImplementer:
    """Its failpoints are about each program."""

    inner: Implementer
    at: Failpoints

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> ImplementedProgram:
        return await self.at.around("implement", self.inner.implement(task, parent, experiment))


@dataclass
class FailingEvaluator:
    """Its failpoints are about each result."""

    inner: Evaluator
    at: Failpoints

    async def submit(self, request: EvaluationRequest) -> None:
        await self.inner.submit(request)

    async def result(self, identity: EvaluationId) -> Evaluation:
        return await self.at.around("evaluate", self.inner.result(identity))

    async def cancel(self, identity: EvaluationId) -> None:
        await self.inner.cancel(identity)

    async def leave(self, identity: EvaluationId) -> None:
        await self.inner.leave(identity)

    def pending(self) -> Sequence[EvaluationId]:
        return self.inner.pending()

    def machines(self) -> Machines | None:
        return self.inner.machines()


@dataclass
class FailingPublisher:
    """Its failpoints are about each version."""

    inner: Publisher
    at: Failpoints

    async def publish(self, version: int, weights: Path) -> Receipt:
        return await self.at.around("publish", self.inner.publish(version, weights))


@dataclass
class FailingLearner:
    """Its failpoints are about each step. At one more the file of weights has only begun."""

    inner: Learner
    at: Failpoints

    async def train(self, group: Path) -> Step:
        step = await self.at.around("learn", self.inner.train(group))
        name = "good weights half" if RESTORED in step.metrics else "weights half"
        if step.weights is not None and self.at.next_is_fatal(name):
            (step.weights / WEIGHTS).write_text("1")  # a digit of many
        self.at(name)
        return step
