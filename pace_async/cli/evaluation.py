"""pace eval: score one program exactly as a run would."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pace_async.cli.options import command_of
from pace_async.cli.output import JSON_OPTION, indented, print_fields, print_json

if TYPE_CHECKING:
    from pace_async.evaluate.base import Evaluation
    from pace_async.task import TaskSpec


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("eval")(command_of(EvaluateFlags, evaluate))


@dataclass(frozen=True, slots=True)
class EvaluateFlags:
    """What `pace eval` may be given."""

    task: str = typer.Argument(..., help="Task name or folder.", metavar="TASK")
    file: Path = typer.Argument(..., help="The program.", metavar="FILE")
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
    import anyio

    from pace_async.cli.options import settings_of_evaluator
    from pace_async.configure import resolve
    from pace_async.evaluate.assemble import evaluate_file
    from pace_async.evaluate.scorer.scorer_log import printed, scorer_log
    from pace_async.task import load_task

    loaded = load_task(flags.task)
    program = _program_at(flags.file, loaded.spec)
    chosen = settings_of_evaluator(flags.sets)
    overrides = {"evaluation.seed": flags.seed, "evaluation.unsafe_no_sandbox": flags.unsafe}
    settings = resolve(overrides={**overrides, **chosen}, environment={}).evaluation
    with scorer_log() as log:
        found = anyio.run(evaluate_file, loaded, program, settings, log)
        said = printed(log)
    if flags.as_json:
        print_json(_fields(found) | ({"evaluator_log": said} if flags.debug else {}))
        return
    print_fields(_lines(found))
    if found.feedback:
        typer.echo(f"\nfeedback, which the implementer is shown\n{indented(found.feedback)}")
    if flags.debug:
        typer.echo(f"\nwhat the evaluator printed\n{indented(said) or '    nothing'}")
    elif found.evaluator_error:
        typer.echo("\nThat is an error of the task's evaluator, not of the program: --debug shows its traceback.")


def _fields(found: "Evaluation") -> dict[str, object]:
    """An evaluation as --json gives it."""
    return {
        "outcome": found.outcome,
        "score": found.score,
        "seconds": found.seconds,
        "detail": found.detail,
        "metrics": dict(found.metrics),
        "feedback": found.feedback or None,
        "cascade": [asdict(score) for score in found.cascade],
        "evaluator_error": found.evaluator_error or None,
    }


def _lines(found: "Evaluation") -> dict[str, object]:
    """An evaluation as it is printed."""
    return {
        "outcome": found.outcome,
        "score": None if found.score is None else f"{found.score:.10g}",
        "seconds": found.seconds,
        **{f"stage {score.stage}": in_words(asdict(score)) for score in found.cascade},
        **{name: f"{value:.6g}" for name, value in found.metrics.items()},
        "detail": found.detail or None,
        **({"evaluator": f"failed: {found.evaluator_error}"} if found.evaluator_error else {}),
    }


def _program_at(file: Path, spec: "TaskSpec") -> str:
    """The text of a program. If the task has several files and the text names none, the files beside it are added.
    Raises UsageError."""
    from pace_async.errors import UsageError
    from pace_async.programs.text import joined, parted

    def text_of(one: Path) -> str:
        try:
            return one.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise UsageError(f"Cannot read {one}: {why}.") from None

    program = text_of(file)
    beside = {name: file.with_name(name) for name in spec.files if file.with_name(name).exists()}
    if not beside or parted(program)[0][0]:
        return program
    return joined({spec.program: program, **{name: text_of(path) for name, path in beside.items()}})


def in_words(stage: Mapping[str, Any]) -> str:
    """The result of a cheap stage, from the fields of a CascadeScore."""
    came = stage["outcome"] if stage["score"] is None else f"{stage['score']:.10g}"
    return f"{came} of {stage['threshold']:g}: {'passed' if stage['passed'] else 'stopped'}"
