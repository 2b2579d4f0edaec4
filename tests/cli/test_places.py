"""The latest run is the one that was written to last, wherever SQLite has put what was written."""

import os
import sqlite3
from pathlib import Path

import pytest

from pace_async.population.reading.reader import open_readonly
from pace_async.runtime.run_paths import find_run_paths
from tests.support.finished_runs import make_run

OLD, NEW = 1_000_000_000.0, 1_500_000_000.0


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`older` and `newer`, nothing in their logs."""
    monkeypatch.chdir(tmp_path)
    for name, at in (("older", OLD), ("newer", NEW)):
        database = make_run(tmp_path / "runs" / name) / "population.db"
        connection = sqlite3.connect(database)
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.close()
        os.utime(database, (at, at))
    return tmp_path / "runs"


def test_a_row_that_stands_in_the_log_only_makes_its_run_the_latest(runs: Path) -> None:
    assert find_run_paths(None).name == "newer"
    resumed = sqlite3.connect(runs / "older" / "population.db")
    resumed.execute("insert into faults values (1, 999, 'engine', 'died', '', null, 1.0)")
    resumed.commit()
    try:
        assert (runs / "older" / "population.db").stat().st_mtime == OLD, "SQLite has not touched the file itself"
        assert find_run_paths(None).name == "older"
    finally:
        resumed.close()


def test_reading_an_older_run_does_not_make_it_the_latest(runs: Path) -> None:
    with open_readonly(runs / "older" / "population.db") as reader:
        reader.status()
        assert find_run_paths(None).name == "newer"
    assert find_run_paths(None).name == "newer"
