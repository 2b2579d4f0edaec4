"""The seam to whatever trains the advisor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

GROUP_UNREADABLE = "group_unreadable"
"""The kind of the fault that a group's file is damaged or gone; nothing was trained."""


RESTORED = "restored"
"""Among a step's figures: the version that the advisor went back to."""


@dataclass(frozen=True, slots=True)
class Step:
    """What came of one group. `version` is the learner's after it: update + 1 where trained, update where the step
    was discarded (NaN or Inf), with the reason. `weights` is the directory that holds the version's weights. Once the
    step is recorded, no group file before `oldest_group` is needed to rebuild it; None: all of them may be."""

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
        """Take one optimizer step on a group file (`replay.groupfile`). Raises InfrastructureFault if the learner died
        or did not answer in time, if the disk failed (`durable.DISK_FAULTS`), or of kind GROUP_UNREADABLE; the same
        group may then be given again and is trained once. Where the group says to go back to an earlier version, no
        step is taken: the next version has the weights and the optimizer of that one, or of version 0 where they are
        lost, and the figures have which, under RESTORED."""
        ...


class Scorer(Protocol):
    """Says what the learner's own weights think of an answer."""

    async def logprobs(
        self, version: int, prompt_ids: tuple[int, ...], completion_ids: tuple[int, ...]
    ) -> tuple[float, ...] | None:
        """One log-probability, in nats, for each token of the answer, under weights `version` and at the run's
        temperature; None if the learner does not hold that version (any more). Raises InfrastructureFault."""
        ...
