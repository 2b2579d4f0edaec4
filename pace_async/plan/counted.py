"""Counts a training step in a child process, so that no torch enters this one."""

import json
import os
import subprocess
from typing import Any

from pace_async.children import PARENT, clean_environment, python_module
from pace_async.errors import UsageError
from pace_async.installing import install_line, missing
from pace_async.plan.step import StepBytes, StepShape

DEADLINE_S = 900.0
"""A count takes 5 to 15 s on a quiet core."""


class NotCounted(UsageError):
    """The step of a model was not counted. The model may work all the same."""


def counted(shape: StepShape) -> StepBytes:
    """The bytes of a step. Raises UsageError for a model that cannot be built, NotCounted if the count fails."""
    if missing("learn"):
        raise NotCounted(
            f"The memory of {shape.model} is counted with torch and transformers, which are not all installed: "
            f"{install_line('learn')}."
        )
    environment = clean_environment(OMP_NUM_THREADS="1", **{PARENT: str(os.getpid())})
    command = python_module("pace_async.plan.count", shape.to_json())
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotCounted(f"The memory of {shape.model} was not counted after {DEADLINE_S:.0f} s.") from None
    lines = done.stdout.decode(errors="replace").splitlines()
    if done.returncode != 0 or not lines:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise NotCounted(f"The memory of {shape.model} could not be counted: {last[:300]}.")
    answer: dict[str, Any] = json.loads(lines[-1])
    if "refused" in answer:
        raise UsageError(f"{answer['refused']}: transformers cannot build this model.")
    return StepBytes(**answer)
