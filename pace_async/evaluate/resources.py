"""What a task's evaluations get of this machine: slots with processors of their own, and the user's environment.

Whatever a task asks for and this machine does not have is refused here, in one sentence, before anything is started.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pace_async import config
from pace_async.errors import UsageError
from pace_async.evaluate.local import Parts
from pace_async.evaluate.sandbox.environment import Environment, find_environment
from pace_async.evaluate.slots import Slot
from pace_async.task import Task


@dataclass(frozen=True, slots=True)
class Resources:
    """`cpus` is None if evaluations share the processors."""

    environment: Environment
    slots: tuple[Slot, ...]
    cpus: int | None = None

    @property
    def identity(self) -> str:
        """Changes with everything here on which a score may depend. Empty if nothing was asked for. No value of a
        variable can be read from it."""
        own = f"cpus-{self.cpus}" if self.cpus is not None else ""
        return f"{own} {self.environment.identity}".strip()

    @property
    def start_cold(self) -> bool:
        """Whether a function has to be started without a warm parent: libraries read variables when they are imported,
        which the parent has done."""
        return bool(self.environment.variables) or (self.cpus or 1) > 1

    def added_to(self, parts: Parts) -> Parts:
        """The parts of an evaluator that grants these."""
        return replace(parts, slots=self.slots, variables=self.environment.variables)

    def in_words(self) -> str:
        """For the plan of a run, empty if nothing was asked for."""
        said = [f"{self.cpus} processors each" if self.cpus != 1 else "1 processor each"] if self.cpus else []
        said += [f"prefix {place.removesuffix('/bin')}" for place in self.environment.places]
        passed = self.environment.passed_on
        return ", ".join((*said, *([f"variables {', '.join(passed)}"] if passed else [])))


def resources_of(task: Task, evaluation: config.EvaluationConfig) -> Resources:
    """Raises UsageError for what this machine does not have."""
    return Resources(find_environment(task), slots_of(task, evaluation.slots), task.spec.cpus)


def refuse_if_timed(task: Task) -> None:
    """Raises UsageError if a task whose score contains time asks for what has no reliable clock."""
    if (task.spec.cpus or 1) > 1 and not task.spec.written_in.needs_threads:
        raise UsageError(
            f"Task {task.name!r} scores time, so its programs have one thread: cpus in task.yaml must be 1 or left out."
        )


def slots_of(task: Task, count: int, processors: Sequence[int] | None = None) -> tuple[Slot, ...]:
    """At most `count` slots, as many as have their own processors. `processors` are those that this process may use.
    Raises UsageError if there are not enough for one."""
    cpus = task.spec.cpus
    if cpus is None:
        return (Slot(),) * count
    here = sorted(os.sched_getaffinity(0) if processors is None else processors)
    if cpus > len(here):
        raise UsageError(
            f"Task {task.name!r} wants {cpus} processors for each evaluation, and this machine lets pace use "
            f"{len(here)}: lower cpus in task.yaml, or evaluate elsewhere."
        )
    parts = [tuple(here[at : at + cpus]) for at in range(0, len(here) - cpus + 1, cpus)]
    return tuple(Slot(part) for part in parts[:count])
