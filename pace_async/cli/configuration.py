"""pace config: the resolved configuration."""

from pathlib import Path

import typer

from pace_async.cli.options import overrides_of
from pace_async.cli.output import JSON_OPTION, print_json

app = typer.Typer(help="The resolved configuration.", no_args_is_help=True)


@app.callback()
def config() -> None:
    """The resolved configuration."""


@app.command("show")
def show(
    file: Path | None = typer.Option(None, "--config", help="YAML file of settings."),
    sets: list[str] | None = typer.Option(None, "--set", help="A setting, such as learner.k=2.", metavar="KEY=VALUE"),
    as_json: bool = JSON_OPTION,
) -> None:
    """Print every setting as a run would have it: flag, environment, file, default, in this order.

    Example: pace config show --set learner.k=2
    """
    from pace_async.config import dump, resolve

    resolved = resolve(file, overrides_of(sets))
    if as_json:
        print_json(resolved.model_dump(mode="json"))
    else:
        typer.echo(dump(resolved), nl=False)
