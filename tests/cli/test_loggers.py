"""pace log and --log to trackio and Weights & Biases: what each wrote, read back from its own files."""

import fcntl
import importlib.util
import json
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pace_async.errors import UsageError
from pace_async.observe.watchers.base import Completion, LogFailed, LoggedRun, Record
from pace_async.observe.watchers.process import SeparateWatcher
from pace_async.observe.watchers.trackio import trackio
from pace_async.observe.watchers.wandb import wandb
from tests.support import weights_and_biases as written
from tests.support.command_line import search
from tests.support.finished_runs import make_run, pace

RUN = "circle_packing-1"
NEEDED = "PACE_NEEDS_EXTRAS" in os.environ
SAID = Completion(3, 1, 0.5, -0.25, "ok", 2.5, "Try it.", "I would try </script> it.")


def needs(package: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(package) is None and not NEEDED
    return pytest.mark.skipif(missing, reason=f"pip install '.[{package}]'")


def in_trackio(folder: Path) -> list[tuple[str, int, dict[str, Any]]]:
    """Run, step and figures of every record, as trackio's database has them."""
    [file] = folder.glob("*.db")
    database = sqlite3.connect(file)
    try:
        rows = database.execute("select run_name, step, metrics from metrics order by id").fetchall()
    finally:
        database.close()
    return [(run, step, json.loads(metrics)) for run, step, metrics in rows]


def rows(run: Path, statement: str) -> list[Any]:
    database = sqlite3.connect(run / "population.db")
    try:
        return [value for (value,) in database.execute(statement)]
    finally:
        database.close()


def figures(records: list[dict[str, Any]], name: str) -> list[float]:
    return [record[name] for record in records if name in record]


def equals_the_rows(records: list[dict[str, Any]], run: Path) -> None:
    scores = rows(run, "select score from candidates where score is not null order by at, candidate")
    assert figures(records, "search/score") == pytest.approx(scores)
    losses = rows(run, "select loss from groups where state = 'trained' order by group_number")
    assert figures(records, "learner/loss") == pytest.approx(losses, abs=1e-6)
    for axis in ("axis/candidates", "axis/update", "axis/seconds", "axis/usd"):
        values = [record[axis] for record in records]
        assert len(values) == len(records)
        assert values == sorted(values)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_run(tmp_path / "runs" / RUN)
    return tmp_path


@pytest.mark.long
@needs("trackio")
def test_trackio_has_every_figure_and_every_completion_of_the_rows(folder: Path) -> None:
    there = folder / "trackio"
    said = pace("log", RUN, "--to", "trackio=ours", "--json", cwd=folder, TRACKIO_DIR=str(there))
    assert said.returncode == 0, said.stderr
    found = in_trackio(there)
    assert len(found) == json.loads(said.stdout)["records"]["trackio"]
    assert all(run.startswith(f"{RUN}-") for run, _, _ in found)
    assert [step for _, step, _ in found] == [record["axis/candidates"] for _, _, record in found]
    equals_the_rows([record for _, _, record in found], folder / "runs" / RUN)
    tables = [record["completions"]["_value"] for _, _, record in found if "completions" in record]
    candidates = [row["candidate"] for table in tables for row in table]
    grouped = "select lease from leases where group_number is not null order by group_number, lease"
    assert candidates == rows(folder / "runs" / RUN, grouped)
    assert all(row["completion"] and row["outcome"] for table in tables for row in table)
    again = pace("log", RUN, "--to", "trackio=ours", cwd=folder, TRACKIO_DIR=str(there))
    assert (again.returncode, len(again.stderr.splitlines())) == (2, 1)
    assert "trackio has this run already" in again.stderr
    assert len(in_trackio(there)) == len(found)


@pytest.mark.long
@needs("wandb")
def test_weights_and_biases_has_every_figure_and_every_completion_of_the_rows(folder: Path) -> None:
    said = pace("log", RUN, "--to", "wandb=them/theirs", "--json", cwd=folder, WANDB_MODE="offline")
    assert said.returncode == 0, said.stderr
    [there] = (folder / "runs" / RUN / "wandb").glob("offline-run-*")
    found = written.history(there)
    assert len(found) == json.loads(said.stdout)["records"]["wandb"]
    equals_the_rows(found, folder / "runs" / RUN)
    run = written.begun(there)
    assert (run.entity, run.project, run.display_name) == ("them", "theirs", RUN)
    assert run.run_id.startswith(f"{RUN}-")
    tables = written.tables(there)
    answer, outcome = tables[0]["columns"].index("completion"), tables[0]["columns"].index("outcome")
    assert all(row[answer] and row[outcome] for table in tables for row in table["data"])
    grouped = "select lease from leases where group_number is not null order by group_number, lease"
    assert [row[0] for table in tables for row in table["data"]] == rows(folder / "runs" / RUN, grouped)
    again = pace("log", RUN, "--to", "wandb", cwd=folder, WANDB_MODE="offline")
    assert (again.returncode, len(again.stderr.splitlines())) == (2, 1)
    assert "Weights & Biases has this run already" in again.stderr


@pytest.mark.long
@needs("wandb")
def test_a_logger_that_refuses_is_one_sentence(folder: Path) -> None:
    nobody = {"WANDB_MODE": "online", "WANDB_API_KEY": "", "HOME": str(folder), "NETRC": str(folder / "none")}
    said = pace("log", RUN, "--to", "wandb", cwd=folder, **nobody)
    assert (said.returncode, len(said.stderr.splitlines())) == (6, 1)
    assert "The log wandb failed and is incomplete, try again later: UsageError: No API key" in said.stderr


def record(number: int) -> Record:
    return Record("candidate", float(number), number, 0, 1.5, 0.5, {"search/score": number / 2}, (SAID,))


def finish(watcher: SeparateWatcher, number: int, logged: LoggedRun) -> None:
    watcher.begin(logged, replay=False)
    watcher.write([record(number)])
    process = watcher._process
    watcher.close()
    assert process is not None
    assert process.wait() == 0  # a run does not wait for it


@pytest.mark.long
@needs("trackio")
def test_a_resumed_run_goes_on_in_the_same_log_of_trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "there"))
    logged = LoggedRun("../odd name", "toy", 0.0, tmp_path, {"seed": 1})
    for number in (1, 2):
        finish(trackio(), number, logged)
    assert [(run, step) for run, step, _ in in_trackio(tmp_path / "there")] == [(logged.id, 1), (logged.id, 2)]


@pytest.mark.long
@needs("wandb")
def test_a_resumed_run_has_the_same_id_in_weights_and_biases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    logged = LoggedRun("../odd name", "toy", 0.0, tmp_path, {"seed": 1})
    for number in (1, 2):
        monkeypatch.setenv("WANDB_DIR", str(tmp_path / str(number)))
        (tmp_path / str(number)).mkdir()
        finish(wandb(), number, logged)
    for number in (1, 2):
        [there] = (tmp_path / str(number) / "wandb").glob("offline-run-*")
        assert written.begun(there).run_id == logged.id
        assert [entry["search/score"] for entry in written.history(there)] == [number / 2]
        [table] = written.tables(there)
        assert table["data"] == [[3, 1, 0.5, -0.25, "ok", 2.5, "Try it.", "I would try </script> it."]]


@pytest.mark.long
@needs("trackio")
def test_a_database_that_cannot_be_written_ends_the_log_of_trackio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "there"
    monkeypatch.setenv("TRACKIO_DIR", str(place))
    place.write_text("a file, and no folder")
    watcher = trackio()
    with pytest.raises(LogFailed, match=r"(Error|Exists)"):
        watcher.begin(LOGGED, replay=True)
        watcher.write([record(1)])
        watcher.close()


Makes = Callable[[str], SeparateWatcher]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Makes:
    """Makes a watcher of the doubles in a process of its own, which finds the tests."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    return lambda name: SeparateWatcher("kept", f"tests.doubles.written_watchers:{name}", str(tmp_path / "kept"))


LOGGED = LoggedRun("demo", "toy", 0.0, None, {})


def test_a_watcher_in_its_own_process_writes_everything_and_prints_into_a_file(tmp_path: Path, made: Makes) -> None:
    watcher = made("Written")
    watcher.begin(LoggedRun("demo", "toy", 0.0, tmp_path, {"seed": 1}), replay=True)
    watcher.write([record(1), record(2)])
    watcher.write([record(3)])
    watcher.close()
    kept = [json.loads(line) for line in (tmp_path / "kept").read_text().splitlines()]
    assert kept[0] == {"run": "demo", "settings": {"seed": 1}, "replay": True}
    assert [line["candidates"] for line in kept[1:-1]] == [1, 2, 3]
    assert kept[1]["completions"][0]["completion"] == "I would try </script> it."
    assert kept[-1] == {"closed": True}
    assert "begun" in (tmp_path / "logs" / "kept.log").read_text()


def test_what_a_watcher_raises_in_its_own_process_is_raised_here(made: Makes) -> None:
    watcher = made("Fails")
    watcher.begin(LOGGED, replay=False)
    with pytest.raises(LogFailed, match="ConnectionError: no third record"):
        for number in range(1, 4):
            watcher.write([record(number)])
        watcher.close()
        watcher._answer(None)


def test_a_watcher_that_refuses_in_its_own_process_refuses_here(made: Makes) -> None:
    with pytest.raises(UsageError, match="it has this run"):
        made("Refuses").begin(LOGGED, replay=True)


def test_a_watcher_whose_process_is_gone_says_so(made: Makes) -> None:
    watcher = made("Dies")
    watcher.begin(LOGGED, replay=False)
    watcher.write([record(1)])
    with pytest.raises(LogFailed, match="its process has ended"):
        watcher._answer(None)


def test_a_run_that_is_killed_leaves_a_log_of_all_that_was_written(tmp_path: Path, made: Makes) -> None:
    watcher = made("Written")
    watcher.begin(LOGGED, replay=False)
    watcher.write([record(1)])
    process = watcher._process
    assert process is not None and process.stdin is not None and process.stdout is not None
    process.stdin.write(b'{"records": [{"kind"')  # it is killed within a line
    process.stdin.close()
    assert json.loads(process.stdout.readline()) == {}
    assert process.wait() == 0
    process.stdout.close()
    assert [json.loads(line) for line in (tmp_path / "kept").read_text().splitlines()][-1] == {"closed": True}


def test_a_logger_gets_no_key_of_a_provider(tmp_path: Path, made: Makes, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("OPENAI_API_KEY", "PACE_ADVISOR__API_KEY", "AWS_SECRET_ACCESS_KEY")
    for secret in secrets:
        monkeypatch.setenv(secret, "swordfish")
    monkeypatch.setenv("WANDB_API_KEY", "its own")
    watcher = made("Environment")
    watcher.begin(LOGGED, replay=True)
    watcher.close()
    seen = json.loads((tmp_path / "kept").read_text())
    assert not set(secrets) & set(seen)
    assert seen["WANDB_API_KEY"] == "its own"


@pytest.mark.timeout(500)
@needs("trackio")
@pytest.mark.long
@needs("wandb")
def test_a_real_run_and_its_resume_write_two_logs_that_equal_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    both = ("--log", "trackio", "--log", "wandb")
    begun = search(tmp_path, ["run", "--candidates", "8", "--threads", "2", *both])
    assert begun.code == 0, begun.err
    resumed = search(tmp_path, ["resume", RUN, "--candidates", "12", *both])
    assert resumed.code == 0, resumed.err
    run = tmp_path / "runs" / RUN
    for log in ("trackio", "wandb"):
        with (run / "logs" / f"{log}.log").open() as printed:
            fcntl.flock(printed, fcntl.LOCK_EX)  # waits until its process has ended
    wanted = "select score from candidates where score is not null and candidate > 0 order by at, candidate"
    scores = pytest.approx(rows(run, wanted))
    assert figures([record for _, _, record in in_trackio(tmp_path / "trackio")], "search/score") == scores
    ids = {name for name, _, _ in in_trackio(tmp_path / "trackio")}
    assert len(ids) == 1
    both_files = sorted((run / "wandb").glob("offline-run-*"))
    assert len(both_files) == 2
    assert figures([step for there in both_files for step in written.history(there)], "search/score") == scores
    assert {written.begun(there).run_id for there in both_files} == ids
