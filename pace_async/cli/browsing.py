"""pace web: runs in a browser."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pace_async.cli.completing import run_names
from pace_async.cli.output import tell
from pace_async.errors import UsageError
from pace_async.runtime.run_paths import RUNS, RunPaths, find_run_paths, runs_under

if TYPE_CHECKING:
    from pace_async.web.inbox import Writing

TOKEN = "PACE_WEB_TOKEN"
WRITING_TOKEN = "PACE_WEB_WRITING_TOKEN"


def web(
    runs: list[str] = typer.Argument(
        None,
        metavar="[RUN|FOLDER|URL]...",
        autocompletion=run_names,
        help="Runs, folders of runs, databases on a server. By default every run under ./runs.",
    ),
    host: str = typer.Option(
        "127.0.0.1", help="Address to listen on. If it is not a loopback address, other machines can reach it."
    ),
    port: int | None = typer.Option(None, min=1, max=65535, help="Port [default: the first free one from 8642 on]."),
    name: list[str] = typer.Option(
        [], "--name", metavar="HOST", help="A further name by which browsers reach this server. May be repeated."
    ),
    token: bool = typer.Option(
        True,
        "--token/--no-token",
        help="Whether the address must hold a token. Without it only a loopback address is allowed.",
    ),
    write: bool = typer.Option(
        False,
        "--write",
        help="Print a second address. Who opens it may also add ideas, programs and a note, and mark what is there.",
    ),
    show: bool = typer.Option(False, "--open", help="Open the pages in the browser."),
) -> None:
    """Show runs in a browser, live: curve, tree, candidates, learner, spend. It reads the database and nothing else,
    and writes what --write lets in.

    The token is a new one each time, or the value of PACE_WEB_TOKEN, that of --write PACE_WEB_WRITING_TOKEN.

    Example: pace web circle_packing-1
    """
    from pace_async.web.serve import LOOPBACK, listening_socket, new_token, serve

    if not token and host not in LOOPBACK:
        raise UsageError(f"--no-token would show the runs to everybody who can reach {host}: keep the token there.")
    places = _places(runs or [])
    from pace_async.web.runs import open_all

    with (
        open_all({name: run.place for name, run in places.items()}) as open_runs,
        listening_socket(host, port) as listening,
    ):
        secret = (os.environ.get(TOKEN) or new_token()) if token else None
        writing = _writing(places, secret) if write else None
        where = f"[{host}]" if ":" in host else host
        page = f"/run/{next(iter(open_runs))}" if len(open_runs) == 1 else "/"
        pages = f"http://{where}:{listening.getsockname()[1]}{page}"
        address = f"{pages}?token={secret}" if secret else pages

        def begun() -> None:
            tell(f"{address}\nCtrl-C ends it; the runs go on.")
            if writing:
                tell(f"Who opens this address may also write, in the inbox of a run:\n{pages}?token={writing.token}")
            if show:
                import webbrowser

                webbrowser.open(address)

        hosts = frozenset((*LOOPBACK, host.lower(), *name))
        asker = partial(_prompts_and_answers, places)
        serve(open_runs, listening, token=secret, hosts=hosts, asker=asker, writing=writing, begun=begun)


@dataclass(frozen=True, slots=True)
class _Run:
    """Where a run is. `paths` is None for one that is named by the URL of its database."""

    place: tuple[Path | str, str | None]
    paths: RunPaths | None

    @property
    def where(self) -> str:
        """The run as commands name it."""
        return "#".join(map(str, self.place)) if self.paths is None else str(self.paths.folder.absolute())


def _writing(runs: Mapping[str, _Run], reading: str | None) -> "Writing":
    """What is let in, under a token of its own. Raises UsageError."""
    from pace_async.cli.web_actions import ACTIONS
    from pace_async.web.inbox import Writing
    from pace_async.web.serve import new_token

    token = os.environ.get(WRITING_TOKEN) or new_token()
    if token == reading:
        raise UsageError(f"{WRITING_TOKEN} and {TOKEN} are the same: who may look would also write.")
    return Writing(token, ACTIONS, {name: run.where for name, run in runs.items()})


def _prompts_and_answers(runs: Mapping[str, _Run], name: str, candidate: int) -> list[tuple[str, str]]:
    """The prompts and answers of a candidate, each text with its heading."""
    from pace_async.cli.prompt_history import asked_for
    from pace_async.population.reading.reader import open_readonly

    run = runs[name]
    if run.paths is None:
        raise UsageError("Prompts are read with the run's folder: name the run by it, not by the URL of a database.")
    with open_readonly(*run.place) as reader:
        prompts = asked_for(run.paths, reader, candidate)
    texts: list[tuple[str, str]] = []
    for prompt in prompts.advisor:
        tokens = f" ({prompt.tokens:,} tokens)" if prompt.tokens is not None else ""
        texts += [(f"Advisor, {prompt.purpose}{tokens}", prompt.text), ("Its answer", prompt.answer)]
    texts += [(f"Implementer, {message['role']}", message["content"]) for message in prompts.messages]
    texts += [(f"Implementer, before try {again.number}", again.content) for again in prompts.repairs]
    return [*texts, ("Note", f"{prompts.note[0].upper()}{prompts.note[1:]}.")] if prompts.note else texts


def _places(locations: list[str]) -> dict[str, _Run]:
    """Where each run is, by a name that no other has."""
    runs: dict[str, _Run] = {}
    for where in locations or [str(RUNS)]:
        for name, run in _at(where):
            unique, number = name, 2
            while unique in runs:
                unique, number = f"{name}-{number}", number + 1
            runs[unique] = run
    if not runs:
        raise UsageError("There is no run under ./runs yet: `pace run` makes one.")
    return runs


def _at(where: str) -> list[tuple[str, _Run]]:
    if "://" in where:
        from pace_async.population.reading.reader import open_readonly

        with open_readonly(where) as reader:
            return [(run, _Run((where, run), None)) for run in reader.runs()]
    folder = Path(where)
    inside = sorted(runs_under(folder), key=lambda paths: paths.name)
    if not RunPaths(folder).exists and (inside or folder == RUNS):
        return [(paths.name, _Run(paths.population, paths)) for paths in inside]
    paths = find_run_paths(where)
    return [(paths.name, _Run(paths.population, paths))]
