"""Trainers of the advisor (`learner.trainer`): where its weights are, and who steps on them.

The code of a trainer is a context manager in which it trains.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.config import Config
    from pace_async.runtime.children import tinker, training
    from pace_async.runtime.children.training import TrainerFactory
else:
    tinker, training = later("pace_async.runtime.children", "tinker", "training")


@dataclass(frozen=True, slots=True)
class TrainerKind(Entry["TrainerFactory"]):
    """`elsewhere`: the weights are with a service, so the run needs no card, no torch and no weights here, and pays for
    tokens. `engine`: the only engine that serves its versions, and that serves no others. Empty: any other. `check`
    raises UsageError for a configuration that it cannot train here. None: it always can."""

    elsewhere: bool = False
    engine: str = ""
    check: "Callable[[], Callable[[Config], object]] | None" = None

    def refuse_unless_there(self, config: "Config") -> None:
        """Raises UsageError for a run that it cannot train here. Uses no network."""
        if self.check is not None:
            self.check()(config)


TRAINERS = Registry(
    "trainer",
    TrainerKind("process", "a child process around TRL, on this machine", lambda: training.process),
    TrainerKind(
        "tinker",
        "the Tinker API or a server that speaks it, which trains LoRA adapters and samples from them",
        lambda: tinker.training,
        elsewhere=True,
        engine="tinker",
        check=lambda: tinker.refuse_unless_trained,
    ),
)
