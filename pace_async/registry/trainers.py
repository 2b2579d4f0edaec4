"""Trainers of the advisor (`learner.trainer`): where its weights are, and who steps on them.

The code of a trainer is a context manager in which it trains: `runtime.children.training.TrainerFactory`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from pace_async.registry.base import Entry, Registry, load_code


@dataclass(frozen=True, slots=True)
class TrainerKind(Entry):
    """`elsewhere`: the weights are with a service, so the run needs no card, no torch and no weights here, and pays for
    tokens. `engine`: the only engine that serves its versions, and that serves no others. Empty: any other. `check`
    names a function of the configuration that raises UsageError if it cannot train here. Empty: it always can."""

    elsewhere: bool = False
    engine: str = ""
    check: str = ""

    def refuse_unless_there(self, config: object) -> None:
        """Raises UsageError for a run that it cannot train here. Uses no network."""
        if self.check:
            cast("Callable[[object], object]", load_code(self.check))(config)


TRAINERS = Registry(
    "trainer",
    TrainerKind(
        "process", "a child process around TRL, on this machine", "pace_async.runtime.children.training:process"
    ),
    TrainerKind(
        "tinker",
        "the Tinker API or a server that speaks it, which trains LoRA adapters and samples from them",
        "pace_async.runtime.children.tinker:training",
        elsewhere=True,
        engine="tinker",
        check="pace_async.runtime.children.tinker:refuse_unless_trained",
    ),
)
