"""pace web: runs in a browser."""

import os
from pathlib import Path

import typer

from pace_async.errors import UsageError
from pace_async.runtime.run_paths import RUNS, RunPaths, find_run_paths, runs_under

TOKEN = "PACE_WEB_TOKEN"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("web")(web)


def web(
    runs: list[str] = typer.Argument(
        None,
        metavar="[RUN|FOLDER|URL]...",
        help="Runs, folders of runs, databases on a server. By default every run under ./runs.",
    ),
    host: str = typer.Option(
        "127.0.0.1", help="Address to listen at. Any other than loopback can be reached by others."
    ),
    port: int | None = typer.Option(None, min=1, max=65535, help="Port [default: the first free one from 8642 on]."),
    name: list[str] = typer.Option(
        [], "--name", metavar="HOST", help="A further name by which browsers reach this server. May be repeated."
    ),
    token: bool = typer.Option(
        True, "--token/--no-token", help="Whether the address must hold a token. Without it only loopback is allowed."
    ),
    show: bool = typer.Option(False, "--open", help="Open the pages in the browser."),
) -> None:
    """Show runs in a browser, live: curve, tree, candidates, learner, spend. It reads the database and nothing else.

    The token is a new one each time, or the value of PACE_WEB_TOKEN.

    Example: pace web circle_packing-1
    """
    from pace_async.web.serve import LOOPBACK, bound, new_token, serve

    if not token and host not in LOOPBACK:
        raise UsageError(f"--no-token would show the runs to everybody who reaches {host}: keep the token there.")
    places = _places(runs or [])
    from pace_async.web.runs import opened

    with opened(places) as shown, bound(host, port) as listening:
        secret = (os.environ.get(TOKEN) or new_token()) if token else None
        where = f"[{host}]" if ":" in host else host
        page = f"/run/{next(iter(shown))}" if len(shown) == 1 else "/"
        address = f"http://{where}:{listening.getsockname()[1]}{page}" + (f"?token={secret}" if secret else "")

        def begun() -> None:
            typer.echo(f"{address}\nCtrl-C ends it; the runs go on.")
            if show:
                import webbrowser

                webbrowser.open(address)

        serve(shown, listening, token=secret, hosts=frozenset((*LOOPBACK, host.lower(), *name)), begun=begun)


def _places(wanted: list[str]) -> dict[str, tuple[Path | str, str | None]]:
    """Where each run is, by a name that no other has."""
    found: dict[str, tuple[Path | str, str | None]] = {}
    for where in wanted or [str(RUNS)]:
        for name, place in _at(where):
            unique, number = name, 2
            while unique in found:
                unique, number = f"{name}-{number}", number + 1
            found[unique] = place
    if not found:
        raise UsageError("There is no run under ./runs yet: `pace run` makes one.")
    return found


def _at(where: str) -> list[tuple[str, tuple[Path | str, str | None]]]:
    if "://" in where:
        from pace_async.population.reading.reader import open_readonly

        with open_readonly(where) as reader:
            return [(run, (where, run)) for run in reader.runs()]
    folder = Path(where)
    inside = sorted(runs_under(folder), key=lambda paths: paths.name)
    if not RunPaths(folder).exists and (inside or folder == RUNS):
        return [(paths.name, paths.population) for paths in inside]
    paths = find_run_paths(where)
    return [(paths.name, paths.population)]
