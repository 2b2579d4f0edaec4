"""The limit of open files and connections: raised as far as the machine allows, and a run is refused if it is too low.

The run is refused before anything is written, because a run that reaches the limit later fails at every evaluation.
"""

import resource

from pace_async.config import Config
from pace_async.errors import UsageError

BASE, PER_THREAD, PER_SLOT = 96, 2, 8
"""About twice what was counted of runs with 8 to 24 threads and 2 to 8 slots."""


def descriptors_needed(threads: int, slots: int) -> int:
    """The number of descriptors that a run of this shape needs."""
    return BASE + PER_THREAD * threads + PER_SLOT * slots


def ensure_descriptors(config: Config) -> None:
    """Raise this process's own limit as far as a run needs it. Raises UsageError if the machine's limit is lower."""
    threads, slots = config.search.threads, config.evaluation.slots
    needed = descriptors_needed(threads, slots)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UsageError(
            f"This process may have {hard} files open (`ulimit -n`), and a run with search.threads {threads} and "
            f"evaluation.slots {slots} needs {needed}: raise the limit, or use fewer of them."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
