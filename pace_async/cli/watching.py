"""pace watch: the live screen of a run that another process drives."""

import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import typer

from pace_async.cli.completing import run_names
from pace_async.cli.output import tell
from pace_async.interface.opening import open_anywhere

if TYPE_CHECKING:
    from pace_async.observe.output import Output
    from pace_async.observe.watching import Screen
    from pace_async.population.reading.reader import Reader
    from pace_async.runtime.run_paths import RunPaths

_RUN = typer.Argument(
    None,
    help="Run folder, its name under ./runs, a task's name for its latest run, or the URL of a database (with #NAME if "
    "it holds several runs); by default the latest of all.",
    metavar="[RUN|URL]",
    autocompletion=run_names,
)


def watch(
    run: str | None = _RUN,
    once: bool = typer.Option(False, "--once", help="Print the run as it is now, in a few lines, and end."),
) -> None:
    """The live screen of a run that another terminal, machine or job drives. It ends when the run ends.

    It only reads: the run is the same with and without it, and Ctrl-C leaves the screen, not the run. Where the output
    is not a terminal, it prints lines. `pace status --json` is for programs. Keys show other panels, and ? lists them.

    Example: pace watch circle_packing-1

    Example: pace watch circle_packing-1 --once
    """
    import anyio

    from pace_async.errors import Interrupted
    from pace_async.observe.output import Output

    with open_anywhere(run) as (paths, reader):
        from pace_async.baseline import beside_of
        from pace_async.observe.watching import Source, follow, snapshot
        from pace_async.task import best_known

        header = reader.header()
        known = best_known(header)
        source = Source(reader, partial(_driven, paths), known, beside_of(header))
        if once:
            tell("\n".join(snapshot(source.look(), time.time())))
            return
        output = Output(sys.stdout)
        try:
            view = anyio.run(follow, source, _screen(output, reader))
        except KeyboardInterrupt:
            raise typer.Exit(Interrupted.exit_code) from None
        finally:
            output.close()
        if view.state == "cut_off":
            name = paths.folder if paths is not None else view.header.name
            tell(f"The process that drove this run has ended: `pace resume {name}` goes on.")


def _screen(output: "Output", reader: "Reader") -> "Screen":
    from pace_async.observe.choose import DUMB
    from pace_async.observe.keyboard import Keyboard
    from pace_async.observe.layout import WATCHING
    from pace_async.observe.rich_display import RichDisplay
    from pace_async.observe.watching import FramedScreen, LinesScreen

    if output.terminal and os.environ.get("TERM", "").lower() not in DUMB:
        display = RichDisplay(output, os.environ, WATCHING)
        display.panels.program = lambda candidate: reader.show(candidate)["program"]
        return FramedScreen(display, Keyboard.of())
    return LinesScreen(output)


def _driven(paths: "RunPaths | None") -> tuple[bool | None, str]:
    """Whether a process drives the run, and why it waits. Unknown without a folder."""
    from pace_async.population.lock import holder_of, is_driven

    if paths is None:
        return None, ""
    driven = is_driven(paths.folder)
    holder = holder_of(paths.folder) if driven else None
    return driven, holder.waits_for if holder is not None else ""
