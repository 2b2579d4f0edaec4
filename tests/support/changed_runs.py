"""Finished runs that statements have changed."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from tests.support.finished_runs import make_run

SEED = "update runs set seed = 9, config = json_set(config, '$.seed', 9)"
OTHER = "update runs set config = json_set(config, '$.learner.k', 4)"
WORSE = "update candidates set score = score - 0.1, merit = merit - 0.1"
_FACT = "run_id, seq, at, kind, lease, body"
ONE_MORE_FACT = (
    f"insert into journal ({_FACT}) select {_FACT.replace('seq', 'seq + 1')} from journal order by seq desc limit 1"
)
"""The last fact once more: a page is read anew only after a fact."""


def changed_runs(folder: Path, changes: Mapping[str, Sequence[str]]) -> Path:
    """A run by each of these names in the folder, changed by its statements. Returns the folder."""
    for name, statements in changes.items():
        with closing(sqlite3.connect(make_run(folder / name) / "population.db")) as database, database:
            for statement in statements:
                database.execute(statement)
    return folder
