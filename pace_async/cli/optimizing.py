"""pace optimize: improve a program of one's own, scored by a command of one's own."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pace_async.cli.options import DISPLAY_OPTION, direction_of, minutes, overrides_of
from pace_async.cli.output import print_fields, tell
from pace_async.fitness import Direction, fitness_of
from pace_async.registry.implementers import IMPLEMENTERS

if TYPE_CHECKING:
    from pace_async.interface.own_program import Prepared
    from pace_async.task.spec import Bounds


@dataclass(frozen=True, slots=True)
class OptimizeFlags:
    """What `pace optimize` may be given."""

    program: Path = typer.Argument(..., help="Your program.", metavar="PROGRAM")
    evaluate: str = typer.Option(
        ...,
        "--evaluate",
        help="Command that scores it, with {program} where its path belongs. The last number or JSON object that it "
        "prints is the score.",
        metavar="COMMAND",
    )
    minimize: bool = typer.Option(False, "--minimize", help="A lower score is better.")
    maximize: bool = typer.Option(False, "--maximize", help="A higher score is better.")
    about: str = typer.Option(
        "", "--about", help="What the program is for, for the models [default: its docstring].", metavar="TEXT"
    )
    include: list[Path] | None = typer.Option(
        None, "--include", help="A file or folder that the command reads. May be given several times.", metavar="PATH"
    )
    score: str | None = typer.Option(None, "--score", help="The entry of a printed JSON object that is the score.")
    bounds: str | None = typer.Option(
        None, "--bounds", help="Scores between which progress is measured [default: a guess].", metavar="LOW,HIGH"
    )
    timeout: float | None = typer.Option(
        None, "--timeout", help="Limit of one evaluation in seconds [default: ten times what yours takes]."
    )
    memory_mb: int = typer.Option(4096, "--memory-mb", help="Memory limit of one evaluation, in MiB.")
    implementer: str | None = typer.Option(
        None, "--implementer", help=f"What writes the code. {IMPLEMENTERS.described()} It advises too by default."
    )
    advisor: str | None = typer.Option(None, "--advisor", help="What decides what to try, as for `pace run`.")
    budget: float | None = typer.Option(None, "--budget", help="Stop at so many USD.", metavar="USD")
    candidates: int | None = typer.Option(None, "--candidates", help="Stop after so many candidates [default: 240].")
    minutes: float | None = typer.Option(
        None, "--minutes", parser=minutes, metavar="MINUTES", help="Stop after so many minutes."
    )
    target: float | None = typer.Option(None, "--target", help="Stop at a score at least this good.")
    threads: int | None = typer.Option(None, "--threads", help="Search threads.")
    sets: list[str] | None = typer.Option(None, "--set", help="Any setting of `pace run`.", metavar="KEY=VALUE")
    run_dir: Path | None = typer.Option(None, "--run-dir", help="Folder of the run [default: runs/PROGRAM-N].")
    unsafe: bool = typer.Option(
        False, "--unsafe-no-sandbox", help="Run programs without isolation: only code you trust."
    )
    display: str = DISPLAY_OPTION
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Score your program, print what a run would do, and leave nothing."
    )

    def settings(self) -> dict[str, object]:
        """The settings that flags stand for, None for a flag that was not given."""
        return {
            "implementer.model": self.implementer,
            "advisor.model": self.advisor,
            "stop.budget": self.budget,
            "stop.candidates": self.candidates,
            "stop.minutes": self.minutes,
            "stop.target": self.target,
            "search.threads": self.threads,
            "evaluation.unsafe_no_sandbox": self.unsafe or None,
        }


def optimize(flags: OptimizeFlags) -> None:
    """Improve a program of your own, scored by a command of your own.

    It makes a task beside the run, scores your program in the sandbox, guesses what you do not say and prints it, and
    searches. Your files are not changed: the best program and its difference are left in the run's folder.

    Example: pace optimize my_program.py --evaluate 'python score.py {program}' --maximize --implementer gpt-5 --dry-run
    """
    from pace_async.configure import resolve
    from pace_async.interface.own_program import Given, prepare_own_program, refuse_unless_written, remove_prepared
    from pace_async.runtime.run_paths import RunPaths, new_run_paths
    from pace_async.task.own_program import own_program

    refuse_unless_written(resolve(None, overrides_of(flags.sets, flags.settings())), asked=not flags.dry_run)
    own = own_program(flags.program, flags.evaluate, flags.include or (), Path.cwd())
    run_dir = new_run_paths(own.name, flags.run_dir).folder
    direction, bounds = (
        direction_of(minimize=flags.minimize, maximize=flags.maximize, ask=sys.stdin.isatty()),
        _bounds(flags.bounds),
    )
    tell(f"scoring {own.file} in the sandbox")
    prepared = prepare_own_program(
        own,
        run_dir,
        direction,
        Given(
            about=flags.about,
            bounds=bounds,
            timeout_s=flags.timeout,
            memory_mb=flags.memory_mb,
            scores=(flags.score,) if flags.score else (),
            unsafe_no_sandbox=flags.unsafe,
        ),
    )
    for line in _report_lines(prepared, flags, direction):
        tell(line)
    try:
        code = _search(flags, prepared, run_dir)
    finally:
        if not RunPaths(run_dir).exists:
            remove_prepared(run_dir, prepared.made)
        elif not flags.dry_run:
            tell(f"the task stays in {prepared.folder}: `pace run` and `pace task check` take it like any other")
    raise typer.Exit(code)


def _search(flags: OptimizeFlags, prepared: "Prepared", run_dir: Path) -> int:
    """Run the search on the task, or print what it would do. Returns the exit code."""
    from pace_async.interface.beginning import Asked, begin

    settings = {**overrides_of(flags.sets, flags.settings()), "task": str(prepared.folder.absolute())}
    request = Asked(settings=settings, run_dir=run_dir, display=flags.display)
    if flags.dry_run:
        from pace_async.cli.dry_run import dry_run, lines_of

        print_fields(lines_of(dry_run(request.config, request.folder)))
        return 0
    return begin(request).code


def _bounds(text: str | None) -> "Bounds | None":
    """The given bounds. Raises UsageError."""
    from pydantic import ValidationError

    from pace_async.errors import UsageError
    from pace_async.task.spec import Bounds

    if text is None:
        return None
    try:
        lower, upper = map(float, text.split(","))
        return Bounds(lower=lower, upper=upper)
    except (ValueError, ValidationError):
        raise UsageError(f"--bounds {text!r} must be two numbers, the lower one first, as in 0,10.") from None


def _repeated(prepared: "Prepared") -> str:
    """Whether the second score was the same, and how far it was from the first."""
    again = prepared.again
    if again is None:
        return "scored once"
    if again == prepared.score:
        return "twice the same"
    return f"{again:.10g} the second time, {abs(again - prepared.score):.3g} apart, so scores are noisy"


def _report_lines(prepared: "Prepared", flags: OptimizeFlags, direction: Direction) -> list[str]:
    """What was measured and guessed, a line each, with the flag that says otherwise."""
    best = fitness_of(direction, prepared.bounds.lower, prepared.bounds.upper).goal
    guessed_bounds = "" if flags.bounds else f", a guess: {best:g} may be out of reach (--bounds LOW,HIGH)"
    guessed_limit = "" if flags.timeout else ", guessed (--timeout)"
    return [
        f"  score     {prepared.score:.10g} ({_repeated(prepared)}), in {prepared.seconds:.1f} s",
        f"  progress  measured from {prepared.bounds.lower:g} to {prepared.bounds.upper:g}{guessed_bounds}",
        f"  limits    {prepared.timeout_s:g} s{guessed_limit} and {flags.memory_mb} MiB an evaluation",
    ]
