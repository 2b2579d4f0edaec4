"""Names that a shell completes: runs under ./runs, and tasks.

Invariant: nothing is opened. A folder that cannot be listed gives no names, and no message, because it would appear in
the middle of what a person types.
"""

from collections.abc import Iterable
from contextlib import suppress


def run_names(incomplete: str) -> list[str]:
    """Runs under ./runs, by name."""
    from pace_async.runtime.run_paths import RUNS, runs_under

    with suppress(OSError):
        return _beginning(incomplete, [paths.name for paths in runs_under(RUNS)])
    return []


def task_names(incomplete: str) -> list[str]:
    """The tasks that come with pace, and those under ./tasks."""
    from pace_async.task.finding import task_folders

    with suppress(OSError):
        return _beginning(incomplete, task_folders())
    return []


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete) and name.isprintable())
