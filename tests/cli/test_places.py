"""The latest run is the one that was written to last, wherever SQLite has put what was written."""

import os
import sqlite3
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.population.reading.reader import open_readonly
from pace_async.runtime.run_paths import claimed, find_run_paths, new_run_paths
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


def begun(*names: str) -> None:
    """Runs under ./runs of which there is a database, which these tests do not open."""
    for name in names:
        (Path("runs") / name).mkdir(parents=True)
        (Path("runs") / name / "population.db").touch()


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ([], "there is none under ./runs"),
        (["a-1"], "there is a-1"),
        (["b-1", "a-1"], "there are a-1, b-1"),
        ([f"a-{number}" for number in range(5)], "there are a-0, a-1, a-2, a-3, a-4"),
        ([f"a-{number}" for number in range(8)], "there are a-0, a-1, a-2, a-3, a-4 and 3 more"),
    ],
)
def test_an_unknown_run_is_refused_with_the_runs_that_exist(
    there: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begun(*there)
    otherwise = "Name one of another place by its folder"
    with pytest.raises(UsageError, match=rf"^There is no run 'missing': {said}\. {otherwise}\.$"):
        find_run_paths("missing")


def test_an_unknown_run_is_refused_with_the_names_that_are_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begun("packing-1", "packing-2", "sorting-1", *(f"a-{number}" for number in range(8)))
    with pytest.raises(
        UsageError, match=r"^There is no run 'sortin-1': did you mean sorting-1\? `pace list` shows all"
    ):
        find_run_paths("sortin-1")
    with pytest.raises(UsageError, match=r"did you mean packing-\d or packing-\d\?"):
        find_run_paths("elsewhere/paking-3")


def test_a_run_is_named_by_its_folder_its_database_its_name_or_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name comes before the task. A task's name means its latest run. Without a configuration the task is the part
    of the run's name before its last hyphen."""
    monkeypatch.chdir(tmp_path)
    begun("two-words-1", "two-words-2", "mine", "eplb", "route-1")
    (Path("runs") / "route-1" / "config.yaml").write_text(f"task: {tmp_path}/runs/route-1/task\n")
    (Path("runs") / "mine" / "config.yaml").write_text("seed: 1\ntask: 'tasks/eplb'\n")
    for name, written in (("two-words-1", NEW), ("two-words-2", OLD)):
        database = Path("runs") / name / "population.db"
        database.write_bytes(b"rows")
        os.utime(database, (written, written))
    named = {
        "runs/mine": "mine",
        "runs/mine/population.db": "mine",
        str(tmp_path / "runs" / "mine"): "mine",
        "mine": "mine",
        "eplb": "eplb",
        "two-words": "two-words-1",
        "route": "route-1",  # the task that was made in the run's own folder
    }
    assert {run: find_run_paths(run).name for run in named} == named
    (Path("runs") / "eplb" / "population.db").unlink()
    assert find_run_paths("eplb").name == find_run_paths("tasks/eplb").name == "mine"


def test_a_new_run_takes_the_first_number_that_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    begun("eplb-1", "eplb-3")
    assert [new_run_paths(task, None).name for task in ("eplb", "other")] == ["eplb-2", "other-1"]


def test_runs_that_begin_at_once_get_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    begun("two-words-2")
    free = new_run_paths("two-words", None)  # each of them finds the same name free
    assert [claimed(free, {"two-words-4"}).name for _ in range(3)] == ["two-words-1", "two-words-3", "two-words-5"]
    (tmp_path / "file").write_text("")
    unwritable = new_run_paths("eplb", tmp_path / "file" / "eplb-1")
    (tmp_path / "away").symlink_to(tmp_path / "nowhere")
    monkeypatch.setattr("pace_async.runtime.run_paths.RUNS", tmp_path / "away")
    for place in (unwritable, new_run_paths("eplb", None)):
        assert claimed(place) == place  # its lock is refused, with the reason
