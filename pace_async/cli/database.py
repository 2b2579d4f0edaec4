"""pace db: the population database."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pace_async.cli.completing import run_names
from pace_async.cli.output import JSON_OPTION, RUN_ARGUMENT, print_json, print_table, tell
from pace_async.interface.opening import open_anywhere
from pace_async.observe.columns import on_one_line
from pace_async.runtime.run_paths import find_run_paths

if TYPE_CHECKING:
    from pace_async.cli.documents import CheckedDatabase, DatabaseFinding, Upgraded, WrittenFile

app = typer.Typer(help="The population database of a run.", no_args_is_help=True)

_RUN = typer.Argument(
    ...,
    help="Run folder, its name under ./runs, or a task's name for its latest run.",
    metavar="RUN",
    autocompletion=run_names,
)


@app.callback()
def db() -> None:
    """The population database of a run."""


@app.command("sql")
def sql(
    run: str | None = RUN_ARGUMENT,
    statement: str | None = typer.Argument(None, help="A statement that reads.", metavar="STATEMENT"),
    timeout: float = typer.Option(
        60.0, "--timeout", min=0.001, help="Seconds that the statement may take.", metavar="SECONDS"
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Query the population in SQL. Only statements that read this database are allowed, within a time limit. Views:
    leaderboard, lineage, staleness, spend, progress. On a terminal wide cells are cut to fit. With --json and in a pipe
    they are whole.

    Example: pace db sql circle_packing-1 "select * from leaderboard limit 5"

    Example: pace db sql "select * from progress"
    """
    run, query = _without_run(run, statement)
    with open_anywhere(run) as (_, reader):
        answer = reader.sql(query, timeout)
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    if as_json:
        print_json(rows)
    else:
        print_table(rows)


def _without_run(run: str | None, statement: str | None) -> tuple[str | None, str]:
    """The run, None for the latest, and the statement, which is the last of the arguments. Raises UsageError."""
    if statement is not None:
        return run, statement
    if run is not None and " " in run:
        return None, run
    from pace_async.errors import UsageError

    raise UsageError(f'Add a statement, as in: pace db sql {run or "RUN"} "select * from leaderboard limit 5".')


@app.command("shell")
def shell(
    run: str = _RUN,
    write: bool = typer.Option(False, "--write", help="Allow changes; refused while the run is going on."),
    built_in: bool = typer.Option(False, "--built-in", help="Use pace's small prompt even if sqlite3 is installed."),
) -> None:
    """Open the population at a prompt: sqlite3 if it is installed, else a small prompt, and psql for PostgreSQL. It is
    read-only unless --write is given.

    Example: pace db shell circle_packing-1
    """
    import subprocess
    from contextlib import ExitStack

    paths = find_run_paths(run)
    from pace_async.population.connect import locate, refuse_unless_sound
    from pace_async.population.lock import RunLock
    from pace_async.population.sqlite import reading_uri

    database = locate(paths.population[0])
    refuse_unless_sound(database)
    if not isinstance(database, Path):
        _psql(str(database), write=write)
        return
    sqlite = None if built_in else _sqlite3()
    with ExitStack() as stack:
        if write:
            stack.enter_context(RunLock(paths.folder))
        if sqlite is None:
            from pace_async.cli.shell import built_in as prompt

            prompt(database, write=write)
            return
        mode = ["-cmd", "PRAGMA foreign_keys=ON"] if write else ["-readonly", "-safe"]  # no ATTACH, no other file
        opened = str(database) if write else reading_uri(database)
        done = subprocess.run([sqlite, *mode, opened], check=False)
    if done.returncode:
        raise typer.Exit(1)


def _sqlite3() -> str | None:
    """The path of a sqlite3 that has `-safe`, 3.37 or newer."""
    import re
    import shutil
    import subprocess

    path = shutil.which("sqlite3")
    if path is None:
        return None
    output = subprocess.run([path, "--version"], check=False, capture_output=True, text=True).stdout
    version = re.match(r"(\d+)\.(\d+)", output)
    return path if version and (int(version[1]), int(version[2])) >= (3, 37) else None


def _psql(url: str, *, write: bool) -> None:
    import os
    import shutil
    import subprocess

    from pace_async.errors import UsageError

    psql = shutil.which("psql")
    if psql is None:
        raise UsageError("The population is in PostgreSQL, and psql is not installed: apt install postgresql-client.")
    reads = {} if write else {"PGOPTIONS": "-c default_transaction_read_only=on"}
    if subprocess.run([psql, url], check=False, env={**os.environ, **reads}).returncode:
        raise typer.Exit(1)


@app.command("check")
def check(run: str = _RUN, as_json: bool = JSON_OPTION) -> None:
    """Check a population: the file, references, the conservation line, staleness, versions, candidates, rows given up,
    and that the tables and the snapshot are those that the journal gives. The tables are made anew for that, which
    takes some 2 seconds for 1,000 candidates. RUN may be a file that lies alone too, such as a backup (copy.db).

    Example: pace db check circle_packing-1
    """
    with open_anywhere(run) as (_, reader):
        from pace_async.observe.history import check_views  # only here: a mistake is refused without SQLAlchemy
        from pace_async.population.checking import check_population

        results = check_population(reader)
        results = (*results, *(check_views(reader) if results[0].ok else ()))
    sound = all(result.ok for result in results)
    if as_json:
        checks: list[DatabaseFinding] = [
            {"check": result.name, "ok": result.ok, "found": result.found, "wrong": list(result.wrong)}
            for result in results
        ]
        damage = [line for result in results for line in result.wrong]
        document: CheckedDatabase = {"sound": sound, "damage": damage, "checks": checks}
        print_json(document)
    else:
        print_table(
            [{"check": result.name, "ok": "yes" if result.ok else "NO", "found": result.found} for result in results]
        )
        for line in (line for result in results for line in result.wrong):
            tell(f"wrong: {on_one_line(line)}")
        tell("sound" if sound else "not sound: restore it from a backup, or `pace db sql` shows the rows named")
    if not sound:
        raise typer.Exit(1)


@app.command("backup")
def backup(
    run: str = _RUN,
    file: Path = typer.Argument(..., help="The copy to make.", metavar="FILE"),
    force: bool = typer.Option(False, "--force", help="Overwrite an existing file."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Copy the population to one file, also while the run goes on, and check the copy.

    The advisor's weights and the groups that train it are not in a population. A resume from the copy needs the folders
    learner and groups of the run as they were then: copy them after the population. `pace db copy` copies a run that is
    not going on with all its files.

    Example: pace db backup circle_packing-1 copy.db
    """
    paths = find_run_paths(run)
    from pace_async.population.backup import back_up

    size = back_up(paths.population[0], file, force=force)
    if as_json:
        document: WrittenFile = {"path": str(file), "bytes": size}
        print_json(document)
    else:
        tell(f"{file}: {size:,} bytes, checked")
        if paths.learner.is_dir():
            beside = f"{paths.learner} and {paths.groups}"
            tell(f"The advisor's weights are not in it: a resume from it needs {beside} of this time too.")


@app.command("copy")
def copy(
    run: str = _RUN,
    target: str = typer.Argument(..., help="URL of a PostgreSQL database, or a new folder.", metavar="TARGET"),
    run_dir: Path | None = typer.Option(
        None, "--run-dir", help="With a URL: the new folder [default: that of the run with -copy appended]."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Copy a run that is not going on, all rows and files, to PostgreSQL or into a folder with a file. The copy is
    complete and proven by a digest of each table, or there is none. The run stays as it is.

    Example: pace db copy circle_packing-1 ./runs/copied
    """
    paths = find_run_paths(run)
    from pace_async.runtime.copy_run import copy_run

    result = copy_run(paths, target, run_dir)
    if as_json:
        fields = {
            "folder": str(result.folder),
            "population": result.population,
            "files": result.files,
            "bytes": result.bytes,
        }
        print_json({**fields, **asdict(result.rows)})
        return
    print_table([{**asdict(table), "digest": table.digest[:16]} for table in result.rows.tables if table.rows])
    tell(
        f"{result.folder}: run {result.rows.run} in {result.population}, {result.files} files of {result.bytes:,} bytes"
    )


@app.command("upgrade")
def upgrade_schema(run: str = _RUN, as_json: bool = JSON_OPTION) -> None:
    """Bring an older population to this version's schema.

    Example: pace db upgrade circle_packing-1
    """
    paths = find_run_paths(run)
    from pace_async.population.connect import locate
    from pace_async.population.lock import RunLock
    from pace_async.population.schema import schema_state, upgrade

    with RunLock(paths.folder):
        database = locate(paths.population[0])
        before = schema_state(database)
        upgrade(database)
    if as_json:
        document: Upgraded = {"path": str(database), "upgraded": before != "current", "before": before}
        print_json(document)
    else:
        tell("already current" if before == "current" else f"upgraded from {before}")
