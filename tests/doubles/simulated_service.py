"""A service that trains and samples, exact and in this process: one softmax over the vocabulary, whatever the prompt.

It computes in float64 what a `providers.tinker.service.TrainingService` promises. What is saved outlives its runs, as
at a real service. Calls whose number is in `fails` fail after they had their effect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from pace_async.errors import InfrastructureFault
from pace_async.providers.tinker.service import (
    Adam,
    SampledTokens,
    Sampler,
    TrainingRun,
    VersionAddresses,
    WeightedCall,
)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Weights:
    """Logits (V,), and AdamW's moments and steps."""

    logits: Floats
    first: Floats
    second: Floats
    steps: int

    def logprobs(self) -> Floats:
        return self.logits - np.log(np.exp(self.logits).sum())


@dataclass
class SimulatedService:
    """A `TrainingService`. `calls` counts what was asked of it, by name."""

    logits: Floats
    fails: frozenset[tuple[str, int]] = frozenset()
    calls: dict[str, int] = field(default_factory=dict[str, int])
    states: dict[str, Weights] = field(default_factory=dict[str, Weights])
    runs: int = 0

    def call(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1

    def fail(self, name: str) -> None:
        if (name, self.calls[name]) in self.fails:
            raise InfrastructureFault("service_unreachable", f"{name} {self.calls[name]}")

    async def begin(self, rank: int, state: str | None = None) -> TrainingRun:
        self.call("begin")
        self.fail("begin")
        self.runs += 1
        nothing = np.zeros_like(self.logits)
        given = Weights(self.logits, nothing, nothing, 0) if state is None else self.states[state]
        return SimulatedRun(self, f"run{self.runs}", given, nothing)

    async def saved(self, run: str, name: str) -> VersionAddresses | None:
        saved = address_of(run, name)
        return saved if saved.state in self.states and saved.snapshot in self.states else None

    async def sampler(self, snapshot: str) -> Sampler:
        return SimulatedSampler(self.states[snapshot])


@dataclass
class SimulatedRun:
    """A `TrainingRun`."""

    service: SimulatedService
    name: str
    weights: Weights
    gradient: Floats

    async def logprobs(self, calls: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> list[tuple[float, ...]]:
        self.service.call("logprobs")
        self.service.fail("logprobs")
        logprobs = self.weights.logprobs()
        return [tuple(logprobs[list(answer)].tolist()) for _, answer in calls]

    async def add_gradient(self, calls: Sequence[WeightedCall]) -> None:
        self.service.call("add_gradient")
        probabilities = np.exp(self.weights.logprobs())
        for call in calls:
            for token, slope in zip(call.completion_ids, call.coefficients, strict=True):
                self.gradient = self.gradient + slope * probabilities
                self.gradient[token] -= slope
        self.service.fail("add_gradient")

    async def step(self, adam: Adam) -> Mapping[str, float]:
        self.service.call("step")
        norm = float(np.linalg.norm(self.gradient))
        gradient = self.gradient * min(1.0, adam.max_grad_norm / (norm + 1e-6))
        before, steps = self.weights, self.weights.steps + 1
        first = adam.betas[0] * before.first + (1 - adam.betas[0]) * gradient
        second = adam.betas[1] * before.second + (1 - adam.betas[1]) * gradient**2
        move = (first / (1 - adam.betas[0] ** steps)) / (np.sqrt(second / (1 - adam.betas[1] ** steps)) + adam.eps)
        logits = before.logits * (1 - adam.learning_rate * adam.weight_decay) - adam.learning_rate * move
        self.weights, self.gradient = Weights(logits, first, second, steps), np.zeros_like(gradient)
        self.service.fail("step")
        return {"grad_norm": norm}

    async def save(self, name: str) -> VersionAddresses:
        self.service.call("save")
        saved = address_of(self.name, name)
        assert saved.state not in self.service.states, "a name is given once in a run"
        self.service.states[saved.state] = self.weights
        self.service.states[saved.snapshot] = replace(self.weights)
        self.service.fail("save")
        return saved


@dataclass(frozen=True)
class SimulatedSampler:
    """A `Sampler`."""

    weights: Weights

    async def sample(
        self, prompt_ids: Sequence[int], *, max_tokens: int, seed: int, stop_ids: Sequence[int]
    ) -> SampledTokens:
        logprobs, draws = self.weights.logprobs(), np.random.default_rng(seed)
        tokens: list[int] = []
        while len(tokens) < max_tokens and not (tokens and tokens[-1] in stop_ids):
            tokens.append(int(draws.choice(len(logprobs), p=np.exp(logprobs))))
        finish = "stop" if tokens[-1] in stop_ids else "length"
        return SampledTokens(tuple(tokens), tuple(logprobs[tokens].tolist()), finish)


def address_of(run: str, name: str) -> VersionAddresses:
    return VersionAddresses(f"tinker://{run}/weights/{name}", f"tinker://{run}/sampler_weights/{name}")
