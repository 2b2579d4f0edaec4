"""Replaces stages of a run by others, of the types of their seams. `dataclasses.replace` takes values of any type."""

from dataclasses import replace
from typing import TypedDict, Unpack

from pace_async.advise.base import Engine
from pace_async.evaluate.base import Evaluator
from pace_async.implement.base import Implementer
from pace_async.implement.notes_writer import NotesWriter
from pace_async.learn.base import Learner
from pace_async.publish.base import Publisher
from pace_async.runtime.run.clock import Clock
from pace_async.runtime.run.core import Core


class Changed(TypedDict, total=False):
    """Fields of `Stages`."""

    engine: Engine
    implementer: Implementer
    evaluator: Evaluator
    clock: Clock
    learner: Learner
    publisher: Publisher
    notes: NotesWriter


def change_stages(core: Core, **others: Unpack[Changed]) -> None:
    """Replace these stages of the run."""
    core.stages = replace(core.stages, **others)
