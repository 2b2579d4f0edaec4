"""pace db: the population database."""

import typer

from pace_async.cli.output import JSON_OPTION, print_json, print_table

app = typer.Typer(help="The population database of a run.", no_args_is_help=True)

_RUN = typer.Argument(..., help="Run folder or its name under ./runs.", metavar="RUN")


@app.callback()
def db() -> None:
    """The population database of a run."""


@app.command("sql")
def sql(
    run: str = _RUN,
    statement: str = typer.Argument(..., help="A statement that reads.", metavar="STATEMENT"),
    as_json: bool = JSON_OPTION,
) -> None:
    """Ask the population in SQL; what writes is refused. Views: leaderboard, lineage, staleness, spend, progress.

    Example: pace db sql circle_packing-1 "select * from leaderboard limit 5"
    """
    from pace_async.population.reader import open_readonly
    from pace_async.runtime.places import find_places

    with open_readonly(find_places(run).database) as reader:
        answer = reader.sql(statement)
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    if as_json:
        print_json(rows)
    else:
        print_table(rows)


@app.command("check")
def check(run: str = _RUN, as_json: bool = JSON_OPTION) -> None:
    """Look for damage: the database's own check, and rows that refer to nothing.

    Example: pace db check circle_packing-1
    """
    from pace_async.population.reader import open_readonly
    from pace_async.runtime.places import find_places

    with open_readonly(find_places(run).database) as reader:
        found = reader.check()
    if as_json:
        print_json({"sound": not found, "damage": list(found)})
    else:
        typer.echo("\n".join(found) if found else "sound")
    if found:
        raise typer.Exit(1)


@app.command("upgrade")
def upgrade_schema(run: str = _RUN) -> None:
    """Bring an older population to this version's schema.

    Example: pace db upgrade circle_packing-1
    """
    from pace_async.population.lock import RunLock
    from pace_async.population.schema import schema_state, upgrade
    from pace_async.runtime.places import find_places

    places = find_places(run)
    with RunLock(places.folder):
        before = schema_state(places.database)
        upgrade(places.database)
    typer.echo("already current" if before == "current" else f"upgraded from {before}")
