"""A task: the problem of a search, and the scoring of its programs.

A task is a folder:

    task.yaml       the fields of `TaskSpec`
    initial.py      the seed program, or its first file. The part that may change stands between `# EVOLVE-BLOCK-START`
                    and `# EVOLVE-BLOCK-END`, in comments of its language
    evaluator.py    trusted, never shown to a candidate: `instances(seed) -> list` of JSON values, and
                    `score(instances, outputs) -> {"score": float, ...more finite metrics}`, which raises ValueError for
                    an output that is not allowed. docs/tasks.md lists their further parameters, such as the stage of a
                    cascade. `practice(seed)`, if there is one, makes instances like the others that are never scored.
                    It may import other files of the folder
    catalogue.yaml  optional: named mechanisms that the catalog implementer can apply
    README.md       data, licence, known results

In a `function` task the candidate's `entry` function is called once for each instance, in the sandbox, and returns a
JSON value. In a `process` task the candidate is built and started by commands of task.yaml, in any language. It reads
one JSON value a line and writes one a line. Either gets an instance only after its output for the previous one has been
read. A `command` task has an evaluator of the user's, which runs in the candidate's sandbox.
"""

from pace_async.programs.text import BLOCK_END, BLOCK_START, editable, split_block
from pace_async.task.files import CHEATS, files_of
from pace_async.task.finding import BUNDLED, CHECKOUT, task_folders
from pace_async.task.loading import (
    Task,
    bounds_from,
    limited,
    load_task,
    refuse_if_changed,
)
from pace_async.task.recorded import best_known, reference_of, suffix_of_programs, task_of_run
from pace_async.task.spec import FULL, PRACTICE, Bounds, CascadeStage, Setting, TaskSpec, settings_of

__all__ = [
    "BLOCK_END",
    "BLOCK_START",
    "BUNDLED",
    "CHEATS",
    "CHECKOUT",
    "FULL",
    "PRACTICE",
    "Bounds",
    "CascadeStage",
    "Setting",
    "Task",
    "TaskSpec",
    "best_known",
    "bounds_from",
    "editable",
    "files_of",
    "limited",
    "load_task",
    "reference_of",
    "refuse_if_changed",
    "settings_of",
    "split_block",
    "suffix_of_programs",
    "task_folders",
    "task_of_run",
]
