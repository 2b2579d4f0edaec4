"""Watchers of a run (`--log`): experiment loggers that get its figures.

The code of a watcher makes one from its argument. Other packages add theirs by
an entry point of the group `pace.watchers`, whose name is the watcher's.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.observe.watchers import tensorboard, trackio, wandb
    from pace_async.observe.watchers.base import WatcherFactory
else:
    tensorboard, trackio, wandb = later("pace_async.observe.watchers", "tensorboard", "trackio", "wandb")


@dataclass(frozen=True, slots=True)
class RunWatcher(Entry["WatcherFactory"]):
    """`needs` is the module without which it does not work, an extra of this package has the same name as the
    watcher."""

    needs: str = ""


WATCHERS = Registry(
    "watcher",
    RunWatcher(
        "tensorboard",
        "event files, in the folder ARG or in the run's own",
        lambda: tensorboard.TensorBoard,
        needs="tensorboard",
    ),
    RunWatcher(
        "trackio",
        "its database on this machine or a Space, in the project ARG or pace",
        lambda: trackio.trackio,
        needs="trackio",
    ),
    RunWatcher(
        "wandb",
        "Weights & Biases, in the project ARG (or ENTITY/PROJECT) or pace",
        lambda: wandb.wandb,
        needs="wandb",
    ),
    group="pace.watchers",
)
