"""What a run needs and this machine lacks: a run refuses the first of it, and a dry run names all.

Invariant: only what NotHere stands for is noted. A wrong flag, key, task or file is refused by both.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager

import anyio

from pace_async.config import Config
from pace_async.errors import NotHere
from pace_async.evaluate.scorer.scorer_client import Scorer
from pace_async.evaluate.scorer.scorer_log import scorer_log
from pace_async.providers.keys import refuse_without_keys
from pace_async.runtime.children.advisor_folder import refuse_without_weights
from pace_async.runtime.start.refusals import asking
from pace_async.task import Task, settings_of


@contextmanager
def note_missing(missing: list[str] | None) -> Generator[None]:
    """Add the sentence of NotHere to the list, once, instead of raising it. Without a list it is raised."""
    try:
        yield
    except NotHere as error:
        if missing is None:
            raise
        if str(error) not in missing:
            missing.append(str(error))


def note_the_rest(config: Config, task: Task, missing: list[str]) -> None:
    """What the first checks of a run do not look at: weights, keys, and the data of a task whose settings name some,
    for which its evaluator is loaded in a process. Raises UsageError, also for settings that the evaluator refuses."""
    with note_missing(missing):
        refuse_without_weights(config)
    for caller, models, provider in asking(config):
        with note_missing(missing):
            refuse_without_keys(models, provider.api_base, os.environ, caller)
    if config.evaluation.settings and task.spec.of_kind.hides_scorer:
        with note_missing(missing):
            anyio.run(refuse_unless_data, config, task)


async def refuse_unless_data(config: Config, task: Task) -> None:
    """Raises NotHere, with the evaluator's own message, for missing files."""
    settings = settings_of(task.spec, config.evaluation.settings)
    with scorer_log() as log:
        async with Scorer(task.folder / task.spec.evaluator, log, settings=settings) as scorer:
            await scorer.instances(config.evaluation.seed)
