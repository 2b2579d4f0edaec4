"""Finished runs that statements have changed."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from tests.support.finished_runs import make_run

SEED = "update runs set seed = 9, config = json_set(config, '$.seed', 9)"
OTHER = "update runs set config = json_set(config, '$.learner.k', 4)"
WORSE = "update candidates set score = score - 0.1, merit = merit - 0.1"
ONE_MORE_FACT = (
    "insert into journal (run_id, seq, at, kind, lease, body) "
    "select 1, coalesce(max(seq), 0) + 1, 1.0, 'Stalled', null, '{}' from journal"
)
"""A further fact: a page is read anew only after a fact. The runs of tests have no journal before."""


def changed_runs(folder: Path, changes: Mapping[str, Sequence[str]]) -> Path:
    """A run by each of these names in the folder, changed by its statements. Returns the folder."""
    for name, statements in changes.items():
        with closing(sqlite3.connect(make_run(folder / name) / "population.db")) as database, database:
            for statement in statements:
                database.execute(statement)
    return folder
