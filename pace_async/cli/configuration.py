"""pace config: the resolved configuration."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pace_async.cli.options import CONFIG_OPTION, overrides_of
from pace_async.cli.output import JSON_OPTION, print_json, tell
from pace_async.observe.columns import on_one_line

if TYPE_CHECKING:
    from pace_async.cli.documents import Validated

app = typer.Typer(help="The resolved configuration.", no_args_is_help=True)


@app.callback()
def config() -> None:
    """The resolved configuration."""


@app.command("show")
def show(
    files: list[Path] | None = CONFIG_OPTION,
    sets: list[str] | None = typer.Option(None, "--set", help="A setting, such as learner.k=2.", metavar="KEY=VALUE"),
    as_json: bool = JSON_OPTION,
) -> None:
    """Print every setting as a run resolves it: flag, environment, file, default, in this order.

    Example: pace config show --set learner.k=2
    """
    from pace_async.configure import dump, resolve

    resolved = resolve(files, overrides_of(sets))
    if as_json:
        print_json(resolved.model_dump(mode="json"))
    else:
        typer.echo(dump(resolved), nl=False)


@app.command("validate")
def validate(
    file: Path = typer.Argument(..., help="YAML file of settings.", metavar="FILE"),
    as_json: bool = JSON_OPTION,
) -> None:
    """Check a file of settings: one sentence for each mistake, and exit code 2 if there is one.

    Example: pace config validate run.yaml
    """
    from pace_async.configure import mistakes

    problems = mistakes(file)
    if as_json:
        document: Validated = {"valid": not problems, "mistakes": problems}
        print_json(document)
    else:
        for line in problems:
            tell(f"pace: {on_one_line(line)}", err=True)
        if not problems:
            tell(f"{file} is valid")
    if problems:
        raise typer.Exit(2)


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of a file of settings, for editors and other programs.

    Example: pace config schema
    """
    import json

    from pace_async.config import Config

    typer.echo(json.dumps(Config.model_json_schema(), indent=2))
