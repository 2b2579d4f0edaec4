"""Evaluations of a command task: the user's evaluator in one sandbox with the program.

Invariants: each evaluation gets its own copy of the task's folder, made in its sandbox from a copy that only this
process writes. So a program that changes its evaluator changes no later evaluation. Nothing that comes out of the
sandbox is run or trusted here: it is read as metrics, within limits (`metrics`).
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pace_async.evaluate.base import Evaluation, EvaluationRequest, Limits
from pace_async.evaluate.metrics import LONGEST_FILE, EvaluatorOutput, read, result_files, shorten_feedback
from pace_async.evaluate.sandbox import cgroup, leftovers
from pace_async.evaluate.sandbox.converse import Command, Job
from pace_async.evaluate.sandbox.inside import python_evaluator
from pace_async.evaluate.sandbox.inside.bundle import pack
from pace_async.evaluate.sandbox.python_files import locate
from pace_async.evaluate.sandbox.toolchain import Toolchain
from pace_async.evaluate.sandbox.verdict import JobResult, judge, one_line
from pace_async.evaluate.scorer.strict_json import Invalid, parse
from pace_async.programs.fileset import Program, changed_paths
from pace_async.programs.text import parted
from pace_async.task import Task, files_of
from pace_async.task.kinds.command import PYTHONS

LINKED = 16 << 20
"""Bytes from which a file of the task is not copied: programs see the file itself, read-only."""
LAST_LINES = 20
"""Lines of an evaluator's standard error that are kept where it failed."""
_RUNNER = "call_evaluator.py"


class Commands(AbstractContextManager["Commands"]):
    """What the evaluations of one command task share. Use as a context manager."""

    def __init__(self, task: Task, toolchain: Toolchain) -> None:
        """Copies the task's folder. Raises OSError."""
        self._task, self._toolchain = task, toolchain
        self._folder = tempfile.TemporaryDirectory(prefix=leftovers.prefix(), ignore_cleanup_errors=True)
        root = Path(self._folder.name)
        root.chmod(0o755)  # as root, programs have another user
        self._place, self._linked = root / "task", _copied(task.folder, root / "task")
        (root / "bin").mkdir()
        for name in () if toolchain.has_python else PYTHONS:
            (root / "bin" / name).symlink_to(locate().executable)
        self._runner = root / _RUNNER
        shutil.copyfile(Path(python_evaluator.__file__), self._runner)

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def limits(self, limits: Limits) -> Limits:
        """The limits of an evaluation, with the files that it may read."""
        readable = (*self._toolchain.readable, Path(self._folder.name), *self._linked)
        all_of_them = int(limits.seconds * len(os.sched_getaffinity(0))) + 2
        return replace(
            limits,
            processor_s=all_of_them if limits.processor_s is None else limits.processor_s,
            scratch_mb=self._task.spec.scratch_mb,
            readable=readable,
            address_space=cgroup.find() is None,
        )

    def job(self, request: EvaluationRequest) -> Job:
        """The job that evaluates a program."""
        spec = self._task.spec
        texts, removed = _changes(self._task, request.program)
        files = {name: text.encode("utf-8", "surrogatepass") for name, text in texts.items()}
        command = Command(
            self._argv(request.stage),
            self._environment(),
            str(self._place),
            spec.program,
            pack(files),
            spec.path,
            result_files(spec),
            min(LONGEST_FILE, request.limits.output_bytes // 8),
            packages=not self._toolchain.has_python,
            removed=removed,
            folder=spec.program if spec.has_folder and not spec.python_function else "",
        )
        return Job("", "", ["null"], command=command, bar=request.bar)

    def evaluation(self, ended: JobResult) -> Evaluation:
        """The evaluation of a run, with what its evaluator reported."""
        evaluation = self._evaluation(ended)
        return evaluation if ended.curve is None else replace(evaluation, curve=ended.curve)

    def _evaluation(self, ended: JobResult) -> Evaluation:
        verdict, spec = judge(ended), self._task.spec
        if verdict.outcome != "ok":
            tail = _last_lines(ended.stderr) if verdict.outcome == "candidate_error" else ""
            last = tail.rpartition("\n")[2]
            detail = one_line(f"{verdict.detail}: {last}" if last else verdict.detail)
            feedback = shorten_feedback(f"{verdict.detail}\n{tail}") if spec.feedback and tail else ""
            return Evaluation(verdict.outcome, None, ended.seconds, detail, feedback=feedback)
        try:
            left = EvaluatorOutput(_files(verdict.outputs[0]), ended.stdout)
        except Invalid:
            return Evaluation(
                "suspicious", None, ended.seconds, "the evaluation's result does not have the driver's form"
            )
        reading = read(spec, left)
        if reading.score is None:
            detail = one_line(reading.wrong)
            feedback = shorten_feedback(f"{detail}\n\n{reading.feedback}".strip()) if spec.feedback else ""
            return Evaluation("invalid_score", None, ended.seconds, detail, feedback=feedback)
        return Evaluation("ok", reading.score, ended.seconds, "", reading.metrics, feedback=reading.feedback)

    def _argv(self, stage: str) -> tuple[str, ...]:
        spec = self._task.spec
        if not spec.python_function:
            return tuple(word.replace("{stage}", stage) for word in spec.evaluate)
        function = {entry.name: entry.function for entry in spec.cascade}.get(stage, spec.python_function)
        return (PYTHONS[0], str(self._runner), spec.evaluator, function, "{program}", "{results}")

    def _environment(self) -> Mapping[str, str]:
        path = f"{Path(self._folder.name) / 'bin'}:{self._toolchain.path}"
        fixed = {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1", "PYTHONUNBUFFERED": "1"}
        return {**fixed, **self._task.spec.written_in.environment}


def _changes(task: Task, program: str) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The files that are written over a copy of the task's folder, and those that are removed from it."""
    spec = task.spec
    if not spec.has_folder:
        parts = parted(program) if spec.files else [(spec.program, program)]
        return {name or spec.program: text for name, text in parts}, ()
    before, after = Program.of(task.program), Program.of(program)
    changed = changed_paths(before, after)
    written = {f"{spec.program}/{path}": after.files[path] for path in changed if path in after.files}
    return written, tuple(f"{spec.program}/{path}" for path in changed if path not in after.files)


def _copied(folder: Path, target: Path) -> tuple[Path, ...]:
    """Copy the files of a task that count. Returns the large ones, which are links to those of the folder."""
    linked: list[Path] = []
    target.mkdir()
    for name in files_of(folder):
        source, copy = folder / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.stat().st_size > LINKED:
            copy.symlink_to(source.resolve())
            linked.append(source.resolve())
        else:
            shutil.copyfile(source, copy)
            copy.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
    for parent in [target, *(path for path in target.rglob("*") if path.is_dir())]:
        parent.chmod(0o755)
    return tuple(linked)


def _files(output: bytes) -> Mapping[str, str | int]:
    """The files that the driver sent. A text above the driver's own limit is too long. Raises Invalid."""
    value: Any = parse(output)
    if not isinstance(value, dict):
        raise Invalid("not a mapping of files")
    files = cast("dict[str, Any]", value)
    read = {name: entry for name, entry in files.items() if isinstance(entry, str | int)}
    return {
        name: len(entry) if isinstance(entry, str) and len(entry) > LONGEST_FILE else entry
        for name, entry in read.items()
    }


def _last_lines(stderr: bytes) -> str:
    lines = [line.rstrip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return "\n".join(lines[-LAST_LINES:])
