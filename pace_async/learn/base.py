"""The seam to the learner, which trains the advisor: a group in, a version out, wherever its weights are.

The runtime's loop knows a `Learner` alone. What starts a run knows a `Trainer`: a learner whose versions outlive it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pace_async.errors import InfrastructureFault

GROUP_UNREADABLE = "group_unreadable"
"""Fault kind: a group's file is damaged or missing. Nothing was trained."""


RESTORED = "restored"
"""Key among a step's metrics: the version that the advisor was restored to."""


@dataclass(frozen=True, slots=True)
class Step:
    """Result of one group. `version` is the learner's version after it: update + 1 if the step was taken, update if it
    was discarded for `reason`. `weights` is the directory of the version's weights. Once the step is recorded, a
    rebuild needs no group file before `oldest_group` (None: it may need all of them)."""

    update: int
    version: int
    digest: str
    weights: Path | None
    reason: str
    metrics: Mapping[str, float]
    seconds: float
    oldest_group: Path | None = field(default=None, compare=False)


class Learner(Protocol):
    """Trains one group at a time. Holds no database handle."""

    async def train(self, group: Path) -> Step:
        """Take one optimizer step on a group file (`replay.groupfile`).

        If the group restores an earlier version, no step is taken. The next version gets that version's weights and
        optimizer, or version 0's if they are lost. The metrics then hold the version used, under RESTORED.

        Raises InfrastructureFault if the learner died or did not answer in time, if the disk failed
        (`durable.DISK_FAULTS`), or of kind GROUP_UNREADABLE. The same group may then be passed again, and it is trained
        once."""
        ...


class Trainer(Learner, Protocol):
    """A `Learner` that saves each version and can go on from it after any fault of its own or of the runtime."""

    tell: Callable[[InfrastructureFault], Awaitable[None]]
    """Records what is not a failure of a request."""

    async def ready(self) -> Path:
        """Wait until it holds the run's version L again, weights and optimizer. Returns the folder of that version.
        Raises InfrastructureFault, GaveUp if L cannot be had again."""
        ...

    async def wait_lost(self) -> InfrastructureFault:
        """Return the fault once it is lost between two requests. The next request starts it again. May be called
        again."""
        ...


class LogprobScorer(Protocol):
    """Scores an answer with the learner's own weights."""

    async def logprobs(
        self, version: int, prompt_ids: tuple[int, ...], completion_ids: tuple[int, ...]
    ) -> tuple[float, ...] | None:
        """Log-probability in nats of each token of the answer, under weights `version` and at the run's temperature.
        None if the learner does not hold that version. Raises InfrastructureFault."""
        ...
