"""pace doctor: what this machine can do, each with a remedy."""

import typer

from pace_async.cli.output import JSON_OPTION, print_json, print_table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(as_json: bool = JSON_OPTION) -> None:
    """What this machine can do: engine, learner, sandbox tier, database; each with a remedy.

    Example: pace doctor
    """
    import anyio

    from pace_async.runtime.checks import examine

    rows = [
        {"check": found.name, "ok": found.ok, "found": found.found, "remedy": found.remedy}
        for found in anyio.run(examine)
    ]
    if as_json:
        print_json(rows)
    else:
        print_table([{**row, "ok": "yes" if row["ok"] else "NO", "remedy": row["remedy"] or None} for row in rows])
    if not all(row["ok"] for row in rows):
        raise typer.Exit(1)
