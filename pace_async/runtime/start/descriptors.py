"""How many files and connections a run may have open at once: raised where the machine allows, refused where not.

Refused before anything is written: a run that meets the limit later fails at every evaluation.
"""

import resource

from pace_async.config import Config
from pace_async.errors import UsageError

BASE, PER_THREAD, PER_SLOT = 96, 2, 8
"""About twice what was counted of runs with 8 to 24 threads and 2 to 8 slots."""


def descriptors_needed(threads: int, slots: int) -> int:
    """How many a run of that shape is given."""
    return BASE + PER_THREAD * threads + PER_SLOT * slots


def ensure_descriptors(config: Config) -> None:
    """Raise this process's own limit as far as a run needs it. Raises UsageError where the machine's is lower."""
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
