"""pace log: a run that has ended, written into an experiment logger."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from pace_async.cli.output import JSON_OPTION, RUN_ARGUMENT, print_json, tell
from pace_async.interface.opening import open_anywhere
from pace_async.registry.watchers import WATCHERS

if TYPE_CHECKING:
    from pace_async.cli.documents import Logged

_TO = typer.Option(
    ..., "--to", help=f"Where to. {WATCHERS.described()} May be given several times.", metavar="NAME[=ARG]"
)


def log(run: str | None = RUN_ARGUMENT, to: list[str] = _TO, as_json: bool = JSON_OPTION) -> None:
    """Write a run that has ended into an experiment logger, with the figures that `pace run --log` writes live.

    The log's id is the name of the run. Nothing is written into a log that has this run already. What the processes of
    a run print is in files of its folder, under logs.

    Example: pace log circle_packing-1 --to tensorboard=logs
    """
    from pace_async.errors import UsageError
    from pace_async.observe.watchers.choose import watchers_of
    from pace_async.population.lock import is_driven

    chosen = watchers_of(to, "--to")
    with open_anywhere(run) as (paths, reader):
        from pace_async.observe.model import RunView
        from pace_async.observe.watchers.base import LoggedRun
        from pace_async.observe.watchers.follower import Writing
        from pace_async.population.reading.summaries import made_at

        if paths is not None and is_driven(paths.folder):
            raise UsageError("This run goes on: `--log` writes its figures live, and this command when it has ended.")
        header, began = reader.header(), reader.ask(made_at)
        name = header.name if paths is None else paths.name
        logged = LoggedRun(name, header.task, began, None if paths is None else paths.folder, header.config)
        written: dict[str, int] = {}
        for to_name, watcher in chosen:
            with _translate_errors(to_name):
                watcher.begin(logged, replay=True)
                writing = Writing(watcher, logged, reader, RunView(header))
                writing.go_on()
                watcher.close()
                written[to_name] = writing.written
    if as_json:
        document: Logged = {"run": name, "records": written}
        print_json(document)
        return
    for to_name, records in written.items():
        tell(f"{records} records of {name} are in {to_name}")


@contextmanager
def _translate_errors(name: str) -> Generator[None]:
    """Raises GaveUp, in one sentence, for whatever a logger raises."""
    from pace_async.errors import GaveUp, PaceError
    from pace_async.observe.formatting import clean
    from pace_async.observe.watchers.base import LogFailed

    try:
        yield
    except PaceError:
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, LogFailed) else f"{type(error).__name__}: {error}"
        raise GaveUp(f"The log {name} failed and is incomplete, try again later: {clean(reason, 300)}") from None
