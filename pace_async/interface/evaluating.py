"""Scores one program exactly as a run would, as `pace eval` does."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, cast

from typing_extensions import TypedDict

from pace_async.events import Outcome
from pace_async.interface.loops import beside_any_loop
from pace_async.programs.reading import given_text

if TYPE_CHECKING:
    from pace_async.evaluate.base import Evaluation

_OF_EVALUATOR = "evaluation.settings."


class StageResult(TypedDict):
    """One cheap stage of a cascade: the score and the threshold decide whether it is passed."""

    stage: str
    outcome: Outcome
    score: float | None
    threshold: float
    passed: bool
    seconds: float
    memoised: bool


class EvaluationResult(TypedDict):
    """What `pace eval --json` prints. `score` is None unless `outcome` is "ok", and `detail` says why.
    `evaluator_error` is an error of the task's evaluator. `evaluator_log` is what the evaluator printed, where it was
    asked for."""

    outcome: Outcome
    score: float | None
    seconds: float
    detail: str
    metrics: dict[str, float]
    feedback: str | None
    cascade: list[StageResult]
    evaluator_error: str | None
    evaluator_log: NotRequired[str]


def evaluate_program(
    task: str | PathLike[str],
    program: str | Path,
    settings: Mapping[str, object] | None = None,
    *,
    seed: int = 0,
    unsafe_no_sandbox: bool = False,
    debug: bool = False,
) -> EvaluationResult:
    """Score one program in the sandbox, through the task's cascade where it has one. Returns the keys of
    `pace eval --json`.

    `program` is a file, or the program's text. A text of one line is the name of a file. In a task whose program is a
    folder it is a folder. `settings` are those of the task's evaluator, `seed` is that of the hidden instances. `debug`
    adds `evaluator_log`. An event loop of this thread waits. What a program does wrong is an outcome. Raises UsageError
    for a wrong task, file or setting, and for a machine that cannot evaluate the task."""
    evaluation = partial(
        evaluate_program_async, task, program, settings, seed=seed, unsafe_no_sandbox=unsafe_no_sandbox, debug=debug
    )

    def run_evaluation() -> EvaluationResult:
        import anyio

        return anyio.run(evaluation)

    return beside_any_loop(run_evaluation)


async def evaluate_program_async(
    task: str | PathLike[str],
    program: str | Path,
    settings: Mapping[str, object] | None = None,
    *,
    seed: int = 0,
    unsafe_no_sandbox: bool = False,
    debug: bool = False,
) -> EvaluationResult:
    """`evaluate_program` beside an event loop. A cancellation ends the evaluation."""
    from pace_async.configure import resolve
    from pace_async.evaluate.assemble import evaluate_file
    from pace_async.evaluate.scorer.scorer_log import printed, scorer_log
    from pace_async.task import load_task
    from pace_async.task.program_files import program_text

    loaded = load_task(fspath(task))
    text = given_text(program) or program_text(Path(program), loaded.spec)
    own = {f"{_OF_EVALUATOR}{name.removeprefix(_OF_EVALUATOR)}": value for name, value in (settings or {}).items()}
    overrides = {"evaluation.seed": seed, "evaluation.unsafe_no_sandbox": unsafe_no_sandbox}
    resolved = resolve(overrides={**overrides, **own}, environment={}).evaluation
    with scorer_log() as log:
        result = _result_of(await evaluate_file(loaded, text, resolved, log))
        if debug:
            result["evaluator_log"] = printed(log)
    return result


def _result_of(found: "Evaluation") -> EvaluationResult:
    return {
        "outcome": found.outcome,
        "score": found.score,
        "seconds": found.seconds,
        "detail": found.detail,
        "metrics": dict(found.metrics),
        "feedback": found.feedback or None,
        "cascade": [cast("StageResult", asdict(score)) for score in found.cascade],
        "evaluator_error": found.evaluator_error or None,
    }
