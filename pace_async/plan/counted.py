"""Counts training steps in a child process, so that this one never imports torch."""

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, Any

from pace_async.children import PARENT, clean_environment, python_module
from pace_async.errors import UsageError
from pace_async.installing import install_line, missing
from pace_async.plan.step import StepBytes, StepShape

DEADLINE_S = 900.0
"""A count takes 5 to 15 s on a quiet core."""


class NotCounted(UsageError):
    """The step of a model was not counted. The model may work all the same."""


def count_step(shape: StepShape) -> StepBytes:
    """The bytes of a step. Raises UsageError for a model that cannot be built, NotCounted if the count fails."""
    if missing("learn"):
        raise NotCounted(
            f"The memory of {shape.model} is counted with torch and transformers, which are not all installed: "
            f"{install_line('learn')}."
        )
    child = _child.get()
    if child is None:
        with one_child():
            return count_step(shape)
    answer: dict[str, Any] = json.loads(child.answer(shape))
    if "refused" in answer:
        raise UsageError(f"{answer['refused']}: transformers cannot build this model.")
    return StepBytes(**answer)


@contextmanager
def one_child() -> Generator[None]:
    """What is counted inside the context has one child process, which imports torch once and takes no short step
    twice. It is started with the first count."""
    with tempfile.TemporaryFile() as errors:
        child = _Child(errors)
        token = _child.set(child)
        try:
            yield
        finally:
            _child.reset(token)
            child.end()


class _Child:
    """A child that answers one shape after the other. Another one is started after one that failed. `errors` is the
    file of its standard error."""

    def __init__(self, errors: IO[bytes]) -> None:
        self._errors = errors
        self._process: subprocess.Popen[bytes] | None = None

    def answer(self, shape: StepShape) -> str:
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()
        timer = threading.Timer(DEADLINE_S, lambda: (late.set(), process.kill()))
        timer.start()
        try:
            process.stdin.write(f"{shape.to_json()}\n".encode())
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            timer.cancel()
        if line.endswith(b"\n"):
            return line.decode()
        self.end()
        self._errors.seek(0)
        raise _late(shape) if late.is_set() else _failed(shape, self._errors.read())

    def _started(self) -> subprocess.Popen[bytes]:
        pipe, errors = subprocess.PIPE, self._errors
        environment = clean_environment(OMP_NUM_THREADS="1", **{PARENT: str(os.getpid())})
        command = python_module("pace_async.plan.count")
        return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=errors, bufsize=0)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


_child: ContextVar[_Child | None] = ContextVar("child", default=None)


def _late(shape: StepShape) -> NotCounted:
    return NotCounted(f"The memory of {shape.model} was not counted after {DEADLINE_S:.0f} s.")


def _failed(shape: StepShape, output: bytes) -> NotCounted:
    last = (output.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
    return NotCounted(f"The memory of {shape.model} could not be counted: {last[:300]}.")
