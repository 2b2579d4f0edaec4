"""Modules that answer a question in an interpreter of their own, run in the test's process, which has torch already.

Loading torch and transformers takes a child four seconds of processor time, and its answer a tenth of one. One test of
each such module still starts it.
"""

import io
import runpy
import subprocess
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest

from pace_async.children import python_module
from pace_async.plan.step import StepShape

_run: Any = subprocess.run


def run_here(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run`, which runs what is not a command line of `python_module`."""
    if list(command[:3]) != [sys.executable, "-P", "-m"]:
        return _run(command, **options)
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the module is imported already
        patch.setattr(sys, "argv", list(command[3:]))
        patch.setattr(sys, "stdin", io.StringIO(options.get("input", "")))
        patch.setattr("pace_async.children.die_with_parent", lambda: None)
        with redirect_stdout(out), redirect_stderr(err):
            try:
                runpy.run_module(command[3], run_name="__main__")
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
                err.write("" if end.code is None or isinstance(end.code, int) else f"{end.code}\n")
    texts = (out.getvalue(), err.getvalue())
    given = texts if options.get("text") else tuple(text.encode() for text in texts)
    return subprocess.CompletedProcess(command, code, *given)


def counted_here(_child: object, shape: StepShape) -> str:
    """As the child of `plan.counted` answers."""
    done = run_here(python_module("pace_async.plan.count"), input=f"{shape.to_json()}\n", text=True)
    return str(done.stdout)
