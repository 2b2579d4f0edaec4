"""pace candidate: programs of one's own for a run that searches."""

from pathlib import Path

import typer

from pace_async.cli.output import NAMED_RUN, tell

app = typer.Typer(help="Programs of your own for a run.", no_args_is_help=True)


@app.callback()
def candidate() -> None:
    """Programs of your own for a run."""


@app.command("add")
def add(
    run: str = NAMED_RUN,
    program: Path = typer.Argument(..., help="The program: a file, or a folder where the task's is one."),
    about: str = typer.Option("", metavar="TEXT", help="What it is, for the models and for you."),
) -> None:
    """Let a run, which may be going on in another terminal, evaluate a program of yours as its next candidate, as it
    is. The models are shown its score like any result, the search may go on from it, and no advisor is rewarded for it.
    A run that has ended takes it in when it is resumed.

    Example: pace candidate add eplb-1 mine.py --about "The placement that we use today."
    """
    from pace_async.interface.ideas import add_program

    at_once = add_program(run, program, about)
    tell(f"the run evaluates it {'as its next candidate, or ' if at_once else ''}when it is resumed")
