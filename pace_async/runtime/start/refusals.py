"""Checks of a new run that need no process.

Invariant: nothing is run, written or requested, and nothing heavy is loaded. So a mistake is reported in a fraction of
a second.
"""

import os
from pathlib import Path

from pace_async.config import Config
from pace_async.implement.keys import refuse_without_keys
from pace_async.implement.shares import models_of
from pace_async.runtime.children.catalogue_reading import refuse_unless_read
from pace_async.runtime.run_paths import new_run_paths
from pace_async.task import Task, limited, load_task


def look(config: Config, run_dir: Path | None) -> Task:
    """The task from its folder. Raises UsageError for an unusable task, advisor, folder or key."""
    task = load_task(config.task)
    limits_of(config, task)
    new_run_paths(task.name, run_dir)
    refuse_unless_read(config, task)
    refuse_without_keys(models_of(config.implementer.model), config.implementer.api_base, os.environ)
    return task


def limits_of(config: Config, task: Task) -> Task:
    """The task, with what the run says over its limits. Raises UsageError."""
    given = config.reward
    return limited(task, timeout_s=config.evaluation.timeout_s, lower=given.lower, upper=given.upper)
