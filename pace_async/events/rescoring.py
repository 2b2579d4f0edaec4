"""Facts of rescoring: a run's programs are scored again, because its evaluator was corrected.

An epoch is the time in which one evaluator's scores are in force. Epoch 0 is that of the evaluator with which the run
began. The numbers count from 1. An epoch that was begun is not in force until every program of it has been evaluated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pace_async.events.literals import Outcome


@dataclass(frozen=True, slots=True)
class RescoreBegan:
    """Programs are evaluated by the task with this digest from now on: the `best` ones, or all without it."""

    epoch: int
    task_digest: str
    best: int | None
    at: float


@dataclass(frozen=True, slots=True)
class Rescored:
    """A recorded program was evaluated again. The fields are those of `Evaluated`. `reward` is what it would earn."""

    epoch: int
    candidate: int
    outcome: Outcome
    detail: str
    score: float | None
    reward: float
    seconds: float
    memoised: bool
    at: float
    queue_seconds: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class EpochInForce:
    """The scores of an epoch are those of the run from now on. `last_lease` is the last lease before it. Leases that
    were not complete are aborted in the same transaction."""

    epoch: int
    last_lease: int
    at: float
