"""Runs of circle_packing that earlier versions made.

Version 0.1.0 made two with its own engine, learner and sandbox, at schema 0015. `finished` ended by its stop rule: 24
candidates, 5 groups trained. `interrupted` was killed with SIGKILL: 35 candidates evaluated, 3 groups trained, 8 leases
open. The database and config.yaml of each are kept. Of the interrupted one the group files are kept too, from which a
learner without a checkpoint repeats its updates. Weights are not kept.

`before_journal` is of version 0.2.0 before it kept a journal, at schema 0030, on simulated stages in virtual time, with
a memory of the run, pages of notes, and islands that look at one another often. Its database was copied in the middle:
35 candidates, 8 groups ended, 2 rollouts lost, 7 leases open.
"""

import json
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import MetaData, text
from sqlalchemy.dialects.postgresql import BOOLEAN, JSON, JSONB

from pace_async.population.connect import Place, engine, locate
from pace_async.population.schema import upgrade

DATA = Path(__file__).parents[1] / "data"
Which = Literal["finished", "interrupted", "before_journal"]
MADE_BY: dict[Which, str] = {
    "finished": "version_0_1_0",
    "interrupted": "version_0_1_0",
    "before_journal": "before_journal",
}
REVISIONS: dict[Which, str] = {"finished": "0015", "interrupted": "0015", "before_journal": "0030"}
NAMES: dict[Which, str] = {"finished": "finished", "interrupted": "interrupted", "before_journal": "simulated"}
"""What the rows call the runs."""
_DECODE: dict[type, Callable[[Any], object]] = {BOOLEAN: bool, JSON: json.loads, JSONB: json.loads}
"""How SQLite's values of a column become PostgreSQL's, by the column's type there."""


def earlier_run(which: Which, runs: Path) -> Path:
    """The run's folder in `runs`, unpacked."""
    with tarfile.open(DATA / MADE_BY[which] / f"{which}.tar.xz") as archive:
        # The first releases of Python 3.11 have no filter and no such argument: there the attribute does nothing.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(runs)
    return runs / which


def move_to_server(folder: Path, url: str, which: Which) -> Place:
    """Copy the run's rows to an empty PostgreSQL database at the schema they have, and point the folder there."""
    upgrade(url, REVISIONS[which])
    place = locate(url)
    writer = engine(place, "migrate")
    source = sqlite3.connect(folder / "population.db")
    tables = MetaData()
    with writer.begin() as connection:
        tables.reflect(connection)
        connection.execute(text("SET LOCAL session_replication_role = replica"))  # rows that refer to later ones
        for table in tables.sorted_tables:
            if table.name == "alembic_version":
                continue
            cursor = source.execute(f"SELECT * FROM {table.name}")
            names = [column[0] for column in cursor.description]
            rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in cursor]
            for column in table.columns:
                if (decode := _DECODE.get(type(column.type))) is not None:
                    for row in rows:
                        row[column.name] = None if row[column.name] is None else decode(row[column.name])
            if rows:
                connection.execute(table.insert(), rows)
    source.close()
    writer.dispose()
    (folder / "population.db").unlink()
    (folder / "population.url").write_text(f"{url}\n{NAMES[which]}\n")
    return place
