"""Things that a newcomer might add, one for each registry."""

import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from pace_async.config import EvaluationConfig, SearchConfig
from pace_async.errors import UsageError
from pace_async.evaluate.sandbox.tiers import NoSandbox, NotInstalled, Tier
from pace_async.implement.base import Implementer
from pace_async.learn.correction import Floats
from pace_async.objectives.base import Parameters, Vector
from pace_async.publish.base import EnginePublisher, PublisherParts, PushFailed, Receipt
from pace_async.search.state import Island, Member
from pace_async.staleness.gate import Lease
from pace_async.staleness.policies import Choice, CompleteRollout
from pace_async.task import Task
from tests.doubles.evaluators import Judge


def centred(rewards_B: Vector, parameters: Parameters) -> Vector:
    """An objective: the reward above the mean."""
    return rewards_B - rewards_B.mean()


def half(passed: float, start: float, spreads: object) -> float:
    """A schedule of alpha: one half throughout."""
    return 0.5


def oldest(island: Island, search: SearchConfig, draw: random.Random) -> Member:
    """A parent rule: the candidate that was made first."""
    return min(island.members, key=lambda member: member.candidate)


def never(
    finished: Sequence[CompleteRollout], running: Sequence[Lease], *, learner: int, bound: int, size: int
) -> Choice:
    """A staleness policy: nothing trains."""
    return Choice()


def even(log_ratio_BT: Floats, log_cap_BT: Floats) -> Floats:
    """A correction: every token counts alike."""
    return 0.0 * log_ratio_BT


def not_here() -> Sequence[Tier]:
    """A sandbox tier that needs what no machine has."""
    raise NotInstalled("the toy is not installed")


def trusting() -> Sequence[Tier]:
    """A sandbox tier that isolates nothing."""
    return [NoSandbox()]


def copy(task: Task) -> Implementer:
    """An implementer for no task at all."""
    raise UsageError("the toy does not fit")


class Post:
    """A publisher that refuses all."""

    names_adapters = False

    def __init__(self, url: str) -> None:
        self._url = url

    async def publish(self, version: int, weights: Path) -> Receipt:
        raise PushFailed("push_refused", f"the toy carries nothing to {self._url}", False)

    async def turn_to(self, name: str) -> None: ...

    async def aclose(self) -> None: ...


def by_post(parts: PublisherParts) -> EnginePublisher:
    """A transport."""
    return Post(parts.url)


def broken(engine: str) -> None:
    """The check of an engine that cannot serve."""
    raise UsageError(f"--engine {engine} is broken")


@asynccontextmanager
async def abroad(task: Task, evaluation: EvaluationConfig, **_: object) -> AsyncGenerator[Judge]:
    """An evaluator."""
    yield Judge()
