"""Reading a run from Python: what it gives is what the commands print, and importing it is quick."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import pace_async
from pace_async.errors import UsageError
from tests.support.finished_runs import copy_run, make_run, pace

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copy_run(make_run(tmp_path / "made"), tmp_path)


def printed(folder: Path, *command: str) -> dict[str, object]:
    """What a command prints as JSON."""
    return json.loads(pace(*command, str(folder), "--json", cwd=folder.parents[1]).stdout)


@pytest.mark.long
def test_the_standing_is_what_the_command_prints(folder: Path) -> None:
    status = pace_async.open(folder).status()
    assert json.loads(json.dumps(status)) == printed(folder, "status")
    assert (status["state"], status["candidates"]) == ("done", 40)


@pytest.mark.long
def test_the_best_is_what_the_command_prints(folder: Path) -> None:
    best = pace_async.open(folder).best
    told = printed(folder, "best")
    del told["path"]  # of the copy that only the command writes
    assert json.loads(json.dumps(best)) == told
    assert best["score"] == max(row["score"] for row in pace_async.open(folder).rows() if row["score"] is not None)


@pytest.mark.long
def test_the_standing_says_nothing_of_answers_where_no_model_gives_any(folder: Path) -> None:
    assert "parsed: " in pace("status", str(folder), cwd=folder.parents[1]).stdout
    assert pace_async.open(folder).status()["parse_rate"] is not None
    with closing(sqlite3.connect(folder / "population.db")) as database, database:
        database.execute("update runs set advisor = 'bandit'")
    assert "parsed" not in pace("status", str(folder), cwd=folder.parents[1]).stdout
    told = pace_async.open(folder).status()
    assert (told["parse_rate"], told["parse_rate_lately"], told["parse_share"], told["parse_alarm"]) == (
        None,
        None,
        "",
        None,
    )


def test_rows_a_frame_and_sql_agree(folder: Path) -> None:
    run = pace_async.open(folder)
    rows, frame = run.rows("candidates"), run.candidates()
    assert len(rows) == len(frame) == 41
    assert list(frame["candidate"]) == [row["candidate"] for row in rows]
    assert run.sql("select count(*) as number from candidates") == [{"number": 41}]
    assert run.candidate(3)["candidate"] == 3


def test_without_pandas_a_frame_is_refused_in_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="needs pandas"):
        pace_async.open(folder).candidates()


def test_a_run_is_found_by_its_name_its_task_and_as_the_latest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parents[1])
    for name in ("circle_packing-1", "circle_packing", None):
        assert pace_async.open(name).name == str(folder.resolve())


def test_an_opened_run_stays_the_same_when_the_working_folder_changes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parents[1])
    run = pace_async.open("circle_packing-1")
    monkeypatch.chdir(tmp_path / "made")
    assert run.status()["candidates"] == 40


def test_a_missing_run_and_a_statement_that_writes_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no run"):
        pace_async.open(tmp_path / "none")
    before = (folder / "population.db").read_bytes()
    with pytest.raises(UsageError):
        pace_async.open(folder).sql("delete from candidates")
    assert (folder / "population.db").read_bytes() == before


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, pace_async; assert 'Run' in pace_async.__all__;"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'sqlalchemy', 'pydantic', 'anyio'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_name_that_the_package_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pace_async.nothing  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.long
@pytest.mark.parametrize("script", ["reading_a_run.py", "comparing_runs.py"])
def test_an_example_runs(script: str, folder: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / script), str(folder)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert str(folder.resolve()) in done.stdout
    assert f"{pace_async.open(folder).best['score']:.6g}" in done.stdout


def test_the_interface_is_what_a_notebook_completes() -> None:
    assert dir(pace_async) == sorted(pace_async.__all__)
    assert all(hasattr(pace_async, name) for name in dir(pace_async))
