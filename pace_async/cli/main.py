"""The command `pace`: parse, call, print. Nothing heavy is imported before a command needs it."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from pace_async.cli import (
    advantages,
    browsing,
    comparing,
    comparison,
    configuration,
    database,
    diagnose,
    ending,
    evaluation,
    exporting,
    given_programs,
    ideas,
    listing,
    logs,
    noting,
    optimizing,
    planning,
    prompts,
    reading,
    reporting,
    rescoring,
    running,
    schemas,
    showing,
    simulation,
    tasks,
    watching,
)
from pace_async.cli.options import command_of
from pace_async.cli.output import json_text, tell
from pace_async.cli.process_one import leave_process_one
from pace_async.durable import refusal_of
from pace_async.errors import Interrupted, PaceError, UsageError
from pace_async.gc_freeze import rare_collections
from pace_async.outside import indented, sound

if TYPE_CHECKING:
    from pace_async.cli.documents import ErrorShown

app = typer.Typer(
    name="pace",
    help="Evolutionary program search with an advisor that learns what to try while it searches.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        from pace_async.cli.versions import versions

        tell("\n".join(versions()))
        raise typer.Exit


@app.callback()
def pace(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the versions of pace and of what it runs on."
    ),
) -> None:
    """Evolutionary program search with an advisor that learns what to try while it searches."""


COMMANDS: Mapping[str, Callable[..., None]] = {
    "run": running.run,
    "resume": running.resume,
    "optimize": optimizing.optimize,
    "status": reading.status,
    "best": reading.best,
    "show": showing.show,
    "list": listing.list_runs,
    "watch": watching.watch,
    "note": noting.note,
    "stop": ending.stop,
    "rm": ending.remove,
    "diff": comparing.diff,
    "compare": comparison.compare,
    "export": exporting.export,
    "log": logs.log,
    "report": reporting.report,
    "web": browsing.web,
    "rescore": rescoring.rescore,
    "eval": evaluation.evaluate,
    "advantages": advantages.show,
    "simulate": simulation.simulate,
    "plan": planning.plan,
    "doctor": diagnose.doctor,
    "schema": schemas.schema,
}
FURTHER: Mapping[str, Mapping[str, Any]] = {
    "resume": {"cls": running.ResumeCommand},
    "advantages": {"context_settings": {"ignore_unknown_options": True}},
}
for name, function in COMMANDS.items():
    app.command(name, **FURTHER.get(name, {}))(command_of(function))
app.add_typer(tasks.app, name="task")
app.add_typer(database.app, name="db")
app.add_typer(configuration.app, name="config")
app.add_typer(prompts.app, name="prompts")
app.add_typer(ideas.app, name="idea")
app.add_typer(given_programs.app, name="candidate")


def main() -> None:
    """Run the command line. A user's mistake gives one sentence and an exit code, never a traceback."""
    leave_process_one()
    try:
        _refuse_unless_utf8(sys.argv[1:])
        with rare_collections():  # imports make many objects, and nearly all of them stay
            sys.exit(app(standalone_mode=False))
    except typer.TyperException as error:
        _refuse(error)
        sys.exit(error.exit_code)
    except typer.Abort:
        sys.exit(Interrupted.exit_code)
    except PaceError as error:
        _end_refused(error)
    except BrokenPipeError:
        _end_quietly()
    except OSError as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        _end_refused(refusal)


def _end_refused(error: PaceError) -> NoReturn:
    refused(type(error).__name__, str(error), error.exit_code, getattr(error, "__notes__", ()))
    sys.exit(error.exit_code)


def refused(kind: str, message: str, code: int, notes: Sequence[str] = ()) -> None:
    """Say why on standard error, in one sentence, or in one JSON document with --json. `notes` is foreign text, such as
    what a program printed, and `message` may quote some, such as a name of a file. Nothing of it goes to standard
    output, which holds a whole document or none."""
    words = sys.argv[1:]  # which may be wrong, so they are not parsed
    if "--json" in (words[: words.index("--")] if "--" in words else words):
        document: ErrorShown = {"error": kind, "message": message, "exit_code": code, "notes": list(notes)}
        sys.stderr.write(f"{json_text(document)}\n")
        return
    sys.stderr.write(f"pace: {indented(message, 0)}\n")
    for note in notes:
        sys.stderr.write(f"{indented(note)}\n")


def _refuse_unless_utf8(words: Sequence[str]) -> None:
    """Raises UsageError for a word that no row and no file of settings can hold. It may be a secret and is not
    repeated."""
    for number, word in enumerate(words, start=1):
        if sound(word) != word:
            raise UsageError(f"Word {number} of the command is no text in UTF-8: rename what it names.")


def _end_quietly() -> NoReturn:
    """End after the reader closed the pipe, without an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def _refuse(error: typer.TyperException) -> None:
    """Say in one sentence what is wrong with the arguments, or print the help text if a subcommand is missing."""
    text, context = error.format_message(), getattr(error, "ctx", None)
    if context is not None and text == context.get_help():
        sys.stderr.write(f"{text}\n")
        return
    words = " ".join(text.split()).rstrip(".").replace(": Value error, ", ": ").replace(": Input should", ": it should")
    command = "pace" if context is None else context.command_path
    refused(UsageError.__name__, f"{words}: `{command} -h` shows what there is.", error.exit_code)
