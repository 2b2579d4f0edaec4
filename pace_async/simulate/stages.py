"""Simulated stages, which implement the seams of the real ones and do no work.

Their answers are a seeded function of the request and the serving weights. A run that trains another group, or the same
group in another order, therefore gives other candidates afterwards. A stage takes virtual seconds (`durations`) or,
without them, a seeded number of turns of the event loop, so that rollouts complete in every order.
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.lowlevel

from pace_async.advise.base import Completion
from pace_async.errors import CandidateFault, InfrastructureFault
from pace_async.evaluate.base import Evaluation, EvaluationRequest
from pace_async.evaluate.identities import InTaskEvaluator
from pace_async.evaluate.pruning import Reports, in_words
from pace_async.events import TokenSpan
from pace_async.implement.base import Experiment, ImplementedProgram
from pace_async.learn.base import GROUP_UNREADABLE, RESTORED, Step
from pace_async.publish.base import PushFailed, Receipt
from pace_async.replay.groupfile import read_digested
from pace_async.search.draws import derive
from pace_async.search.state import Member
from pace_async.simulate.codecs import Bytes, Codec
from pace_async.simulate.curves import Curves
from pace_async.simulate.durations import Durations
from pace_async.simulate.nodes import Nodes
from pace_async.task import FULL, Task

Fails = Callable[[str, int], bool]
"""Whether call number n (from 1) of a stage fails."""

ADDED = 5

_IDEA = re.compile(r"^Idea ([0-9]+):", re.MULTILINE)
_TRIED = re.compile(r"^- (?:candidate )?([0-9]+) from", re.MULTILINE)
_NUMBERED = re.compile(r"^- idea ([0-9]+)(?: \(from a person\))?:", re.MULTILINE)
"""As an idea is shown to an advisor that is told the context of a run."""
WEIGHTS = "policy"
"""The file in a version's folder that holds the simulated weights: one number."""


RUINED = -1
"""Weights with which no answer has the right format."""


def never(stage: str, call: int) -> bool:
    """No fault."""
    return False


def weights_of(folder: Path | None, seed: int) -> int:
    """The simulated weights in a version's folder, or those of version 0 without a folder."""
    return derive(seed, "weights") if folder is None else int((folder / WEIGHTS).read_text())


@dataclass(slots=True)
class World:
    """The state outside the runtime, which outlives it: the served version and its weights, the durations of stages,
    the failing calls, and either `slots` of machines that never fail or `nodes`. With `reattaches`, work begun for a
    dead runtime continues, and the next runtime gets its result. `curves` are what evaluations report that may be
    stopped, and `saved_seconds` what those took less that were."""

    seed: int = 0
    turns: int = 6
    fails: Fails = never
    served: int = 0
    weights: int | None = None
    durations: Durations | None = None
    reattaches: bool = False
    slots: anyio.CapacityLimiter | None = None
    nodes: Nodes | None = None
    curves: Curves | None = None
    paused_seconds: float = 0.0
    saved_seconds: float = 0.0
    calls: dict[str, int] = field(default_factory=dict[str, int])
    ends: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])

    def serve(self, version: int, folder: Path | None) -> None:
        """Serve the weights in `folder` from now on."""
        self.served, self.weights = version, weights_of(folder, self.seed)

    async def stage(self, name: str, key: int = 0, share: float = 1.0) -> float:
        """Wait for this share of the stage's duration and return it: virtual seconds, or 1 if only turns count. Raises
        InfrastructureFault if the call is set to fail."""
        number = self.calls[name] = self.calls.get(name, 0) + 1
        seconds = 1.0
        if self.durations is None:
            for _ in range(derive(self.seed, name, number) % (self.turns + 1)):
                await anyio.lowlevel.checkpoint()
        else:
            whole = self.durations.of(name, key)
            seconds = share * whole
            self.saved_seconds += whole - seconds
            await self._until(name, key, seconds)
        if self.fails(name, number):
            raise InfrastructureFault("simulated", f"{name} call {number}")
        return seconds

    async def _until(self, name: str, key: int, seconds: float) -> None:
        if self.reattaches:
            now = anyio.current_time()
            seconds = max(0.0, self.ends.setdefault((name, key), now + seconds) - now)
        await asyncio.sleep(seconds)  # a dozen times a candidate: anyio's detects the event library at each call


@dataclass(slots=True)
class SimulatedEngine:
    """Answers every prompt in the right format, except a seeded one in `unparsed_every` (0: none). A push during a
    generation delays it."""

    world: World
    unparsed_every: int = 11
    codec: Codec = field(default_factory=Bytes)

    async def encode(self, text: str) -> tuple[int, ...]:
        return self.codec.encode(text)

    async def decode(self, token_ids: tuple[int, ...]) -> str:
        return self.codec.decode(token_ids)

    async def generate(
        self, prompt_ids: tuple[int, ...], *, max_tokens: int, temperature: float, seed: int
    ) -> Completion:
        prompt = self.codec.decode(prompt_ids)
        before, weights, paused = self.world.served, self.world.weights, self.world.paused_seconds
        await self.world.stage("advise", seed)
        while self.world.durations is not None and (pause := self.world.paused_seconds - paused) > 0:
            paused = self.world.paused_seconds
            await anyio.sleep(pause)
        after = self.world.served
        draw = derive(seed, str(weights))
        text = _answer(prompt, draw)
        if weights == RUINED or (self.unparsed_every and draw % self.unparsed_every == 0):
            text = "no format at all"
        whole = self.codec.encode(text)
        ids = whole[:max_tokens]
        half = len(ids) // 2 if after != before else 0
        spans = (TokenSpan(before, 0, half), TokenSpan(after, half, len(ids)))
        finish = "stop" if len(ids) == len(whole) else "length"
        return Completion(ids, (-1.0,) * len(ids), tuple(span for span in spans if span.end > span.start), finish)


def _answer(prompt: str, seed: int) -> str:
    if "Specification:" in prompt:
        ideas = f"Idea A (refine): add {seed % 97}\nIdea B (explore): add {seed % 89}"
        covers = "".join(f"\nCovers: {number}" for number in _NUMBERED.findall(prompt)[: seed % 2])
        base = "".join(f"\nBase: {number}" for number in _TRIED.findall(prompt)[seed % 7 : seed % 7 + 1])
        choice = f"Choice: A{base}{covers}\nReasoning: it may help"
        return f"It may be so.\n{ideas}\n{choice}\nSpecification:\nadd {seed % 97}"
    if "Idea ID" in prompt:
        numbers = [int(number) for number in _IDEA.findall(prompt) or _NUMBERED.findall(prompt)]
        return f"Idea ID: {numbers[seed % len(numbers)]}\nExperiment description: add {seed % 97}"
    if "Proposal N: known K" in prompt:
        return "Proposal 1: new\nProposal 2: new\nProposal 3: new"
    return "\n".join(f"Idea {n}\nHypothesis: add {(seed + n) % 97}\nReasoning: it may help" for n in (1, 2, 3))


@dataclass(slots=True)
class SimulatedImplementer:
    """Appends the experiment's number to the parent program and keeps the last ADDED of the parent's own numbers."""

    world: World

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> ImplementedProgram:
        await self.world.stage("implement", experiment.lease)
        number = experiment.description.rpartition(" ")[2]
        if not number[:1].isdigit():
            raise CandidateFault("not_implemented", "the experiment ends with no number")
        task_text, *added = parent.program.split("\nadded_")
        latest = [*added, f"{experiment.lease} = {number}\n"][-ADDED:]
        return ImplementedProgram("\nadded_".join((task_text, *latest)), mechanism="add")


def stage_name(request: EvaluationRequest) -> str:
    """The name under which an evaluation is counted and takes its time. A cheap stage of a cascade takes none."""
    return "evaluate" if request.stage == FULL else f"evaluate {request.stage}"


@dataclass
class SimulatedEvaluator(InTaskEvaluator):
    """A seeded score between the task's bounds, and a different one in each stage of a cascade, which takes no time.
    One program in `fails_every` times out (0: none). The machine fails under the leases in `lost`."""

    world: World
    lower: float
    upper: float
    fails_every: int = 13
    lost: frozenset[int] = frozenset()

    async def run(self, request: EvaluationRequest) -> Evaluation:
        """Raises InfrastructureFault if the world fails."""
        name = stage_name(request)
        arrival, (reports, share) = self.clock(), self.reported(request)
        async with self.world.slots or nullcontext():
            waited = self.clock() - arrival
            seconds = await self.world.stage(name, request.lease, share)
        if request.lease in self.lost:
            return Evaluation(
                "infrastructure_error", None, seconds, "simulated loss of the machine", queue_seconds=waited
            )
        return self.verdict(request, seconds, waited, reports)

    def reported(self, request: EvaluationRequest) -> tuple[Reports | None, float]:
        """What the evaluation reports, None if nothing, and the share of its seconds that it takes."""
        if request.bar is None or self.world.curves is None:
            return None, 1.0
        return self.world.curves.reported(request.lease, request.bar)

    def verdict(
        self, request: EvaluationRequest, seconds: float, waited: float, reports: Reports | None = None
    ) -> Evaluation:
        """The result of a program that has run."""
        curve = reports.curve or None if reports is not None else None
        if reports is not None and reports.missed is not None:
            detail = in_words(reports.curve, reports.missed)
            return Evaluation("pruned", None, seconds, detail, queue_seconds=waited, curve=curve)
        key = (request.program,) if request.stage == FULL else (request.program, request.stage)
        draw = derive(request.seed, *key)
        if self.fails_every and draw % self.fails_every == 0:
            return Evaluation("timeout", None, seconds, "simulated timeout", queue_seconds=waited)
        score = self.lower + (self.upper - self.lower) * (draw % 1000) / 1000
        return Evaluation("ok", score, seconds, queue_seconds=waited, curve=curve)

    def clock(self) -> float:
        """Virtual seconds, 0 if there are only turns."""
        return 0.0 if self.world.durations is None else asyncio.get_running_loop().time()


@dataclass(slots=True)
class SimulatedLearner:
    """Checks the group file and makes the next version's weights: a number that depends on the weights before and on
    everything in the group. The same digest gives the same version. Every `discard_every`-th group is discarded.
    Training on a group in `ruined_by` ruins the weights and all weights made from them."""

    world: World
    folder: Path
    done: dict[str, int] = field(default_factory=dict[str, int])
    discard_every: int = 0
    ruined_by: frozenset[int] = frozenset()
    trained: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    async def train(self, group: Path) -> Step:
        try:
            content, digest = read_digested(group)
        except (OSError, ValueError) as error:
            raise InfrastructureFault(GROUP_UNREADABLE, str(error)) from None
        await self.world.stage("learn", content.number)
        if digest not in self.done:
            discarded = self.discard_every > 0 and content.number % self.discard_every == 0
            discarded = discarded and content.restores is None
            self.done[digest] = content.update + (0 if discarded else 1)
            if not discarded and content.restores is None:
                oldest = min(rollout.oldest_version for rollout in content.rollouts)
                self.trained.append((content.number, content.update, oldest))
        version = self.done[digest]
        seconds = self.world.durations.learning if self.world.durations is not None else 0.0
        if version == content.update:
            return Step(content.update, version, digest, None, "simulated discard", {}, seconds)
        before = self.folder / f"{content.update:06d}" if content.update else None
        weights = self.folder / f"{version:06d}"
        weights.mkdir(parents=True, exist_ok=True)
        if content.restores is not None:
            good = self.folder / f"{content.restores:06d}" if content.restores else None
            (weights / WEIGHTS).write_text(str(weights_of(good, self.world.seed)))
            return Step(content.update, version, digest, weights, "", {RESTORED: float(content.restores)}, seconds)
        old = weights_of(before, self.world.seed)
        ruined = old == RUINED or content.number in self.ruined_by
        (weights / WEIGHTS).write_text(str(RUINED if ruined else derive(old, digest)))
        return Step(content.update, version, digest, weights, "", {"loss": 0.0}, seconds)


@dataclass(slots=True)
class SimulatedPublisher:
    """Changes the served version."""

    world: World

    async def publish(self, version: int, weights: Path) -> Receipt:
        try:
            await self.world.stage("publish", version)
        except InfrastructureFault as fault:
            raise PushFailed(fault.kind, fault.detail, began=False) from None
        try:
            self.world.serve(version, weights)
        except (OSError, ValueError) as error:
            raise PushFailed("incomplete_checkpoint", str(error), began=False) from None
        seconds = self.world.durations.pause if self.world.durations is not None else 0.0
        self.world.paused_seconds += seconds
        return Receipt(version, {"simulated": "0"}, seconds, seconds)
