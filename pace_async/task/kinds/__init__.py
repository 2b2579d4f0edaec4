"""The kinds of tasks, a file each."""

from collections.abc import Mapping

from pace_async.task.kinds.base import TaskKind
from pace_async.task.kinds.command import CommandTask
from pace_async.task.kinds.function import FunctionTask
from pace_async.task.kinds.process import ProcessTask

TASK_KINDS: Mapping[str, TaskKind] = {kind.name: kind for kind in (FunctionTask(), ProcessTask(), CommandTask())}
