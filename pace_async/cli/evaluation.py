"""pace eval: score one program exactly as a run would."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pace_async.cli.completing import task_names
from pace_async.cli.options import overrides_of
from pace_async.cli.output import JSON_OPTION, print_fields, print_json, tell
from pace_async.outside import indented

if TYPE_CHECKING:
    from pace_async.interface.evaluating import EvaluationResult


@dataclass(frozen=True, slots=True)
class EvaluateFlags:
    """What `pace eval` may be given."""

    task: str = typer.Argument(..., help="Task name or folder.", metavar="TASK", autocompletion=task_names)
    file: Path = typer.Argument(..., help="The program: a file, or a folder of files.", metavar="FILE")
    seed: int = typer.Option(0, "--seed", help="Seed of the hidden instances.")
    sets: list[str] | None = typer.Option(None, "--set", help="A setting of the task, as NAME=VALUE.", metavar="N=V")
    unsafe: bool = typer.Option(False, "--unsafe-no-sandbox", help="Without isolation: only code you trust.")
    debug: bool = typer.Option(
        False, "--debug", help="Show what the task's evaluator printed, and the traceback of an error in it."
    )
    as_json: bool = JSON_OPTION


def evaluate(flags: EvaluateFlags) -> None:
    """Score one program in the sandbox, through the task's cascade where it has one.

    The exit code is 0 for every outcome of the program. `outcome` in --json gives it.

    Example: pace eval circle_packing my_program.py --json

    Example: pace eval circle_packing my_program.py --debug
    """
    from pace_async.interface.evaluating import evaluate_program as scored

    result = scored(
        flags.task,
        flags.file,
        overrides_of(flags.sets),
        seed=flags.seed,
        unsafe_no_sandbox=flags.unsafe,
        debug=flags.debug,
    )
    if flags.as_json:
        print_json(result)
        return
    print_fields(_lines(result))
    if result["feedback"]:
        tell(f"\nfeedback, which the implementer is shown\n{indented(result['feedback'])}")
    if flags.debug:
        tell(f"\nwhat the evaluator printed\n{indented(result.get('evaluator_log', '')) or '    nothing'}")
    elif result["evaluator_error"]:
        tell("\nThat is an error of the task's evaluator, not of the program: --debug shows its traceback.")


def _lines(result: "EvaluationResult") -> dict[str, object]:
    """An evaluation as it is printed."""
    score, error = result["score"], result["evaluator_error"]
    return {
        "outcome": result["outcome"],
        "score": None if score is None else f"{score:.10g}",
        "seconds": result["seconds"],
        **{f"stage {stage['stage']}": in_words(stage) for stage in result["cascade"]},
        **{name: f"{value:.6g}" for name, value in result["metrics"].items()},
        "detail": result["detail"] or None,
        **({"evaluator": f"failed: {error}"} if error else {}),
    }


def in_words(stage: Mapping[str, Any]) -> str:
    """The result of a cheap stage, from the fields of a CascadeScore."""
    result = stage["outcome"] if stage["score"] is None else f"{stage['score']:.10g}"
    return f"{result} of {stage['threshold']:g}: {'passed' if stage['passed'] else 'stopped'}"
