"""Simulated stages: they stand behind the same seams as the real ones, do no work, and say so in their names.

Each takes a seeded number of turns of the event loop instead of time, so that rollouts complete in every order. The
simulated advisor writes well-formed answers; the simulated score is a seeded function of the program's text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio.lowlevel

from pace_async.advise.base import Completion
from pace_async.errors import InfrastructureFault
from pace_async.evaluate.base import Evaluation
from pace_async.events import TokenSpan
from pace_async.implement.base import Experiment, Implemented
from pace_async.learn.base import Step
from pace_async.publish.base import PushFailed, Receipt
from pace_async.replay.groupfile import group_digest, read_group
from pace_async.search.draws import derive
from pace_async.search.state import Member
from pace_async.task import Task

Fails = Callable[[str, int], bool]
"""Whether call number n (from 1) of a stage fails."""


def never(stage: str, call: int) -> bool:
    """No fault."""
    return False


@dataclass(slots=True)
class World:
    """What simulated stages share: the version served, how many turns a stage takes, and which calls fail."""

    seed: int = 0
    turns: int = 6
    fails: Fails = never
    served: int = 0
    calls: dict[str, int] = field(default_factory=dict[str, int])

    async def stage(self, name: str) -> int:
        """Pass a seeded number of turns; the number of this call. Raises InfrastructureFault where it is to fail."""
        number = self.calls[name] = self.calls.get(name, 0) + 1
        for _ in range(derive(self.seed, name, number) % (self.turns + 1)):
            await anyio.lowlevel.checkpoint()
        if self.fails(name, number):
            raise InfrastructureFault("simulated", f"{name} call {number}")
        return number


@dataclass(slots=True)
class SimulatedEngine:
    """Answers every question in the right format; a token is a character. Some answers break the format."""

    world: World
    unparsed_every: int = 11

    async def encode(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode())

    async def decode(self, token_ids: tuple[int, ...]) -> str:
        return bytes(token_ids).decode(errors="replace")

    async def generate(
        self, prompt_ids: tuple[int, ...], *, max_tokens: int, temperature: float, seed: int
    ) -> Completion:
        before = self.world.served
        await self.world.stage("advise")
        after = self.world.served
        text = _answer(bytes(prompt_ids).decode(errors="replace"), seed)
        if seed % self.unparsed_every == 0:
            text = "no format at all"
        ids = tuple(text.encode())[:max_tokens]
        half = len(ids) // 2 if after != before else 0
        spans = (TokenSpan(before, 0, half), TokenSpan(after, half, len(ids)))
        return Completion(ids, (-1.0,) * len(ids), tuple(span for span in spans if span.end > span.start), "stop")


def _answer(prompt: str, seed: int) -> str:
    if "Idea ID" in prompt:
        numbers = [int(number) for number in re.findall(r"^Idea ([0-9]+):", prompt, re.MULTILINE)]
        return f"Idea ID: {numbers[seed % len(numbers)]}\nExperiment description: add {seed % 97}"
    if "Proposals:" in prompt:
        return "Proposal 1: new\nProposal 2: new\nProposal 3: new"
    return "\n".join(f"Idea {n}\nHypothesis: add {(seed + n) % 97}\nReasoning: it may help" for n in (1, 2, 3))


@dataclass(slots=True)
class SimulatedImplementer:
    """Appends the number that the experiment names to the parent program."""

    world: World

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> Implemented:
        await self.world.stage("implement")
        number = experiment.description.split()[-1]
        return Implemented(f"{parent.program}\nadded_{experiment.lease} = {number}\n", mechanism="add")


@dataclass(slots=True)
class SimulatedEvaluator:
    """A seeded score between the task's bounds; one program in `fails_every` times out."""

    world: World
    lower: float
    upper: float
    fails_every: int = 13

    async def evaluate(self, program: str, seed: int) -> Evaluation:
        await self.world.stage("evaluate")
        draw = derive(seed, program)
        if draw % self.fails_every == 0:
            return Evaluation("timeout", None, 1.0, "simulated timeout")
        return Evaluation("ok", self.lower + (self.upper - self.lower) * (draw % 1000) / 1000, 1.0)


@dataclass(slots=True)
class SimulatedLearner:
    """Trains nothing: checks the group file and names the next version. The same digest gives the same version."""

    world: World
    folder: Path
    done: dict[str, int] = field(default_factory=dict[str, int])
    discard_every: int = 0
    trained: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    async def train(self, group: Path) -> Step:
        number = await self.world.stage("learn")
        content = read_group(group)
        digest = group_digest(content)
        if digest not in self.done:
            discarded = self.discard_every > 0 and number % self.discard_every == 0
            self.done[digest] = content.update + (0 if discarded else 1)
            if not discarded:
                oldest = min(rollout.oldest_version for rollout in content.rollouts)
                self.trained.append((content.number, content.update, oldest))
        version = self.done[digest]
        weights = self.folder / f"{version:06d}" if version > content.update else None
        return Step(content.update, version, digest, weights, "simulated discard", {"loss": 0.0}, 0.0)


@dataclass(slots=True)
class SimulatedPublisher:
    """Moves the version served."""

    world: World

    async def publish(self, version: int, weights: Path) -> Receipt:
        try:
            await self.world.stage("publish")
        except InfrastructureFault as fault:
            raise PushFailed(fault.kind, fault.detail, began=False) from None
        self.world.served = version
        return Receipt(version, {"simulated": "0"}, 0.0, 0.0)
