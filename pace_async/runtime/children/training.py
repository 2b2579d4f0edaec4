"""Puts a trainer behind the seams: the learner of the runtime's loop, the scorer of a push's probe, and the memory from
which a transport may take a version.

Invariant: a run knows its trainer by these alone, so a trainer may keep its weights on this machine or elsewhere.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pace_async.config import Config
from pace_async.learn.base import LogprobScorer, Trainer
from pace_async.learn.client import ChildLimits, ProcessLearner
from pace_async.learn.settings import TrainerConfig
from pace_async.providers.base import CallLedger
from pace_async.providers.tinker.paid import TokenMeter
from pace_async.providers.tinker.service import TrainingService
from pace_async.publish.base import LearnerMemory
from pace_async.runtime.children.cards import learner_cards
from pace_async.runtime.run_paths import RunPaths


@dataclass(frozen=True, slots=True)
class Training:
    """A trainer that is up. Without a `scorer` no push is probed, without a `memory` versions go by file only. If its
    versions are with a `service`, only one engine can serve them, and `meter` pays for the tokens."""

    trainer: Trainer
    scorer: LogprobScorer | None = None
    memory: LearnerMemory | None = None
    service: TrainingService | None = None
    meter: TokenMeter | None = None


def memory_of(training: Training | None) -> LearnerMemory | None:
    """The memory of a trainer, if there is one."""
    return None if training is None else training.memory


TrainerFactory = Callable[[Config, RunPaths, Path, Sequence[Path], CallLedger], AbstractAsyncContextManager[Training]]
"""Trains for as long as it is open. Arguments: the configuration, the run's paths, version 0's directory, the files of
the groups that made the versions so far, in order, and the ledger of what costs money."""


@asynccontextmanager
async def process(
    config: Config, paths: RunPaths, folder: Path, groups: Sequence[Path], ledger: CallLedger
) -> AsyncGenerator[Training]:
    """The child process around TRL, one for each card."""
    limits = ChildLimits(step_s=config.learner.step_timeout_s, hung_s=config.faults.hung_s, cards=learner_cards(config))
    log = paths.logs / "learner.log"
    async with ProcessLearner(
        folder, paths.learner, TrainerConfig.of(config), groups, log=log, limits=limits
    ) as learner:
        yield Training(learner, learner, learner)
