"""pace doctor: what this machine can do, each with a remedy."""

import typer

from pace_async.cli.options import overrides_of
from pace_async.cli.output import JSON_OPTION, print_json, print_table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(
    implementer: str | None = typer.Option(
        None, "--implementer", help="Also ask this model, or several, one tiny question each.", metavar="MODEL"
    ),
    sets: list[str] | None = typer.Option(
        None, "--set", help="A setting, such as implementer.api_base=URL.", metavar="KEY=VALUE"
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """What this machine can do: engine, learner, sandbox tier, database, implementer; each with a remedy.

    Example: pace doctor --implementer catalog
    """
    import anyio

    from pace_async.config import resolve
    from pace_async.runtime.checks import examine

    config = resolve(None, overrides_of(sets, {"implementer.model": implementer}))

    rows = [
        {"check": found.name, "ok": found.ok, "found": found.found, "remedy": found.remedy}
        for found in anyio.run(examine, config.implementer if implementer is not None else None)
    ]
    if as_json:
        print_json(rows)
    else:
        print_table([{**row, "ok": "yes" if row["ok"] else "NO", "remedy": row["remedy"] or None} for row in rows])
    if not all(row["ok"] for row in rows):
        raise typer.Exit(1)
