"""Scores of the programs that a task's catalogue makes of the task's own program.

They run without a sandbox, because they are ours. Each score is stored.
"""

import inspect
import json
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pace_async.evaluate.following import valued_steps
from pace_async.events import Curve
from pace_async.implement.catalogue import MechanismEdit, apply_edit
from pace_async.programs.compiled import program_hash
from pace_async.task import Task, split_block

Score = Callable[[str], float | None]
_FAILS = (ValueError, ArithmeticError, TypeError, KeyError)


def edited(program: str, edits: Sequence[MechanismEdit]) -> str:
    """The program with these edits of the catalogue. Raises CandidateFault."""
    before, block, after = split_block(program)
    for edit in edits:
        block = apply_edit(block, edit)
    return before + block + after


def scorer_of(task: Task, memo: Path, repeats: int = 1) -> Score:
    """A function that scores a program in this process, by the median of `repeats` evaluations, and stores the
    score."""
    database = sqlite3.connect(memo, timeout=120)
    database.execute(
        "create table if not exists scores (task text, program text, score real, primary key (task, program))"
    )
    evaluator = _evaluator(task)

    def score(program: str) -> float | None:
        key = (f"{task.digest} {repeats}", program_hash(program))
        row = database.execute("select score from scores where task = ? and program = ?", key).fetchone()
        if row is None:
            found = [_evaluate(task, evaluator, program) for _ in range(repeats)]
            row = (None if None in found else statistics.median(value for value in found if value is not None),)
            with database:
                database.execute("insert or ignore into scores values (?, ?, ?)", (*key, row[0]))
        value: float | None = row[0]
        return value

    return score


def curves_of(task: Task) -> Callable[[str], Curve]:
    """A function that gives the values of a program at the steps at which a run would take them, its score last. Empty
    for one without a score."""
    evaluator = _evaluator(task)

    @cache
    def curve(program: str) -> Curve:
        try:
            instances, outputs, known = _outputs(task, evaluator, program)
            steps = [*valued_steps(len(instances)), len(instances)]
            values = [evaluator["so_far"](instances, outputs[:step], known["seed"])["score"] for step in steps]
        except _FAILS:
            return ()
        return tuple(zip(steps, map(float, values), strict=True))

    return curve


def _evaluator(task: Task) -> dict[str, Any]:
    evaluator: dict[str, Any] = {}
    sys.path.insert(0, str(task.folder))  # as the scorer does: an evaluator may import what lies beside it
    exec((task.folder / task.spec.evaluator).read_text(), evaluator)
    return evaluator


def _evaluate(task: Task, evaluator: dict[str, Any], program: str) -> float | None:
    try:
        instances, outputs, known = _outputs(task, evaluator, program)
        return float(evaluator["score"](instances, outputs, **_asked_for(evaluator["score"], 2, known))["score"])
    except _FAILS:
        return None


def _outputs(task: Task, evaluator: dict[str, Any], program: str) -> tuple[Sequence[Any], list[Any], dict[str, Any]]:
    """The instances, what the program makes of them, and what a scorer may ask for."""
    known: dict[str, Any] = {"seed": 0, "settings": task.spec.settings, "overhead": 0.0, "seconds": []}
    instances = evaluator["instances"](0, **_asked_for(evaluator["instances"], 1, known))
    namespace: dict[str, Any] = {"__name__": "candidate"}
    outputs: list[Any] = []
    exec(program, namespace)
    for instance in instances:
        began = time.process_time()
        output = namespace[task.spec.entry](instance)
        known["seconds"].append(time.process_time() - began)
        outputs.append(json.loads(json.dumps(output, default=lambda array: array.tolist())))
    return instances, outputs, known


def _asked_for(function: Callable[..., Any], fixed: int, known: dict[str, Any]) -> dict[str, Any]:
    """The further arguments for which the function has parameters, after its fixed ones, as the scorer does it."""
    return {name: known[name] for name in list(inspect.signature(function).parameters)[fixed:] if name in known}
