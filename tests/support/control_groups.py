"""Control groups that this process made. Earlier tests of the same worker may have left some whose last process is on
its way out, so a test compares what is there with what was there before it."""

from pathlib import Path

from pace_async.evaluate.sandbox import cgroup, leftovers


def settle() -> None:
    """Wait for what the thread of the control groups was asked for so far."""
    cgroup._remover.submit(lambda: None).result(30)  # pyright: ignore[reportPrivateUsage]


def folders() -> set[Path]:
    """Where each group of this process lies, in every hierarchy."""
    hierarchy = cgroup.find()
    if hierarchy is None:
        return set()
    return {path for where in hierarchy.folders for path in where.glob(f"{leftovers.prefix()}*")}
