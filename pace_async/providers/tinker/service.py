"""The seam to a service that trains an adapter and samples from it: the few calls of the Tinker API that a run makes.

A *run* of the service is one adapter with its optimizer, in the service's memory. It is made anew or from a saved
state. Its gradients add up until a step. A *name* is given to what is saved of it: the state, with the optimizer, to go
on from, and the snapshot, to sample from. A snapshot never changes. All logprobs are in nats, at temperature 1.

Invariant: after any fault of a call on a run, what the run holds is unknown, and only saved states count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class WeightedCall:
    """One prompt and its answer. `logprobs` and `coefficients` have an entry for each token of the answer: the current
    logprob, and minus the gradient of the loss with respect to it."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    coefficients: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Adam:
    """One step's AdamW, with the limit on the gradient's norm."""

    learning_rate: float
    betas: tuple[float, float]
    weight_decay: float
    max_grad_norm: float
    eps: float = 1e-8


@dataclass(frozen=True, slots=True)
class VersionAddresses:
    """Addresses of one saved version: its state, and its snapshot."""

    state: str
    snapshot: str


@dataclass(frozen=True, slots=True)
class SampledTokens:
    """An answer, with the token that ended it. Logprobs are those at which its tokens were sampled."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Literal["stop", "length"]


class Sampler(Protocol):
    """Samples from one snapshot."""

    async def sample(
        self, prompt_ids: Sequence[int], *, max_tokens: int, seed: int, stop_ids: Sequence[int]
    ) -> SampledTokens:
        """Sample one answer at temperature 1. Raises InfrastructureFault."""
        ...


class TrainingRun(Protocol):
    """One adapter with its optimizer. Every method raises InfrastructureFault."""

    @property
    def name(self) -> str:
        """The service's own name for it."""
        ...

    async def logprobs(self, calls: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> list[tuple[float, ...]]:
        """The current logprob of each answer's tokens. A call is a prompt and its answer."""
        ...

    async def add_gradient(self, calls: Sequence[WeightedCall]) -> None:
        """Add the gradient of minus the sum of coefficient times logprob."""
        ...

    async def step(self, adam: Adam) -> Mapping[str, float]:
        """Take one step on the gradient, and forget it. Returns what the service measured, by its own names."""
        ...

    async def save(self, name: str) -> VersionAddresses:
        """Save the state and a snapshot. A name is given once in a run."""
        ...


class TrainingService(Protocol):
    """The service. Every method raises InfrastructureFault."""

    async def begin(self, rank: int, state: str | None = None) -> TrainingRun:
        """A new run with adapters of this rank that change nothing yet, or one that goes on from a saved state, with
        its optimizer."""
        ...

    async def saved(self, run: str, name: str) -> VersionAddresses | None:
        """What the run of this name has saved under `name`. None unless both parts are complete."""
        ...

    async def sampler(self, snapshot: str) -> Sampler:
        """Samples from a saved snapshot."""
        ...
