"""Checks of a new run that need no process.

Invariant: nothing is run, written or requested, and nothing heavy is loaded. So a mistake is reported in a fraction of
a second.
"""

import os
from dataclasses import replace
from pathlib import Path

from pace_async.baseline import load_baseline
from pace_async.config import Config, ProviderConfig
from pace_async.implement.shares import models_of
from pace_async.providers.base import ADVISING_IMPLEMENTER, ADVISOR, IMPLEMENTER, Caller
from pace_async.providers.keys import refuse_without_keys
from pace_async.registry.advisors import advisor_of, asked_model
from pace_async.runtime.children.advisor_choice import with_advisor
from pace_async.runtime.children.catalogue_reading import refuse_unless_read
from pace_async.runtime.run_paths import new_run_paths
from pace_async.task import Task, bounds_from, limited, load_task


def look(config: Config, run_dir: Path | None) -> Task:
    """The task from its folder. Raises UsageError for an unusable task, baseline, advisor, folder or key."""
    task = load_task(config.task)
    if config.baseline is not None:
        load_baseline(config.baseline)
    limits_of(config, task)
    new_run_paths(task.name, run_dir)
    refuse_unless_read(with_advisor(config, task), task)
    for caller, models, provider in asking(config):
        refuse_without_keys(models, provider.api_base, os.environ, caller)
    return task


def asking(config: Config) -> tuple[tuple[Caller, list[str], ProviderConfig], ...]:
    """Who asks which models over the network, and how. Raises UsageError."""
    model = config.advisor.model
    advisors = [asked_model(model)] if advisor_of(model).asked else []
    return (
        (advisor_caller(config), advisors, config.advisor.of_calls()),
        (IMPLEMENTER, models_of(config.implementer.model), config.implementer),
    )


def advisor_caller(config: Config) -> Caller:
    """Who asks the advisor's model: the implementer, if that is one of its models, so that sentences name its flag.
    Raises UsageError."""
    advises_too = asked_model(config.advisor.model) in models_of(config.implementer.model)
    return ADVISING_IMPLEMENTER if advises_too else ADVISOR


def limits_of(config: Config, task: Task) -> Task:
    """The task, with what the run says over its limits, its seed program and its settings. Raises UsageError."""
    reward = config.reward
    evaluation = config.evaluation
    return limited(
        replace(task, spec=task.spec.under(evaluation.settings)),
        timeout_s=evaluation.timeout_s,
        lower=reward.lower,
        upper=reward.upper,
        program=evaluation.program,
        gpus_required=evaluation.gpus_required,
    )


def with_bounds(config: Config, task: Task, seed: float | None) -> tuple[Config, Task]:
    """Both with the bounds of a task that leaves them out, from the score of its seed program. They stand in the run's
    settings, so that every resume has the same. Raises UsageError."""
    if task.spec.has_bounds or seed is None:
        return config, task
    bounds = bounds_from(task.spec, seed)
    return fixed_bounds(config, task, bounds.lower, bounds.upper)


def fixed_bounds(config: Config, task: Task, lower: float, upper: float) -> tuple[Config, Task]:
    """Both with these bounds, in the run's settings too."""
    reward = config.reward.model_copy(update={"lower": lower, "upper": upper})
    return config.model_copy(update={"reward": reward}), limited(task, lower=lower, upper=upper)
