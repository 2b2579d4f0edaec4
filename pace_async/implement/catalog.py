"""The catalog implementer: does to the parent program the one edit that the experiment names.

It stands where a frontier model stands, so that the loop is closed, reproducible and free. It reads only the experiment
description: an experiment that names no mechanism of the catalogue, or several, is the candidate's own fault.
"""

from pace_async.compiling import program_hash
from pace_async.errors import CandidateFault, UsageError
from pace_async.implement.base import Experiment, Implemented
from pace_async.implement.catalogue import apply_edit, find_edit, load_catalogue
from pace_async.search.state import Member
from pace_async.task import Task, split_block


class CatalogImplementer:
    """Implements `implement.base.Implementer`. Raises UsageError for a task without a sound catalogue."""

    def __init__(self, task: Task) -> None:
        if task.catalogue_path is None:
            raise UsageError(
                f"Task {task.name!r} has no catalogue, which the catalog implementer needs: name a model by "
                "--implementer, or a catalogue in task.yaml."
            )
        self._catalogue = load_catalogue(task.catalogue_path)

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> Implemented:
        edit = find_edit(self._catalogue, experiment.description)
        before, block, after = split_block(parent.program)
        program = before + apply_edit(block, edit) + after
        if await program_hash(program) == await program_hash(parent.program):
            raise CandidateFault("unchanged", f"{edit.mechanism} is {edit.option} already")
        return Implemented(program, mechanism=edit.mechanism)
