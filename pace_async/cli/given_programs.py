"""pace candidate: programs of one's own for a run that searches, and words about those that are there."""

from pathlib import Path

import typer

from pace_async.cli.ideas import UNDO, tell_marked
from pace_async.cli.output import NAMED_RUN, tell

app = typer.Typer(help="Programs of your own for a run, and which ones it builds on.", no_args_is_help=True)
NUMBERS: list[int] = typer.Argument(..., help="Numbers of candidates.", metavar="N...")


@app.callback()
def candidate() -> None:
    """Programs of your own for a run, and which ones it builds on."""


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


@app.command("ban")
def ban(run: str = NAMED_RUN, numbers: list[int] = NUMBERS, undo: bool = UNDO) -> None:
    """Let candidates count for nothing any more, such as those that cheat. From the next candidate on none is a parent,
    shown to the models as a program, or the best. Their rows stay. The task's own program cannot be banned.

    Example: pace candidate ban eplb-1 12 7
    """
    _mark(run, numbers, "ban", undo)


@app.command("pin")
def pin(run: str = NAMED_RUN, numbers: list[int] = NUMBERS, undo: bool = UNDO) -> None:
    """Let the next candidate build on this one, whichever island makes it. Several are built on one after the other,
    each once.

    Example: pace candidate pin eplb-1 12
    """
    _mark(run, numbers, "pin", undo)


def _mark(run: str, numbers: list[int], mark: str, undo: bool) -> None:
    from pace_async.interface.steering import mark_candidates

    hears = mark_candidates(run, numbers, mark, undo)
    when = "from the next candidate on" if hears else "when the run is resumed"
    tell_marked("candidate", numbers, mark, undo, when)
