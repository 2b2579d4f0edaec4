"""pace list: which runs exist, how far each is, and one that cannot be read among the others."""

import json
import sqlite3
from pathlib import Path

import pytest

from pace_async.cli.listing import age
from pace_async.population.lock import RunLock
from pace_async.runtime.run_index import remember_run
from tests.support.command_line import Shell
from tests.support.finished_runs import make_run, poison

pytestmark = pytest.mark.usefixtures("finished_run")


def change(run: Path, statement: str) -> None:
    database = sqlite3.connect(run / "population.db")
    with database:
        database.execute(statement)
    database.close()


def test_list_says_of_each_run_what_status_says(shell: Shell) -> None:
    status = json.loads(shell.pace("status", "circle_packing-1", "--json").out)
    [found] = json.loads(shell.pace("list", "--json").out)
    shared = ("state", "candidates", "updates", "best_score", "spend_usd")
    assert {key: found[key] for key in shared} == {key: status[key] for key in shared}
    assert found["run"] == "circle_packing-1"
    assert found["age_seconds"] >= 0


def test_the_last_active_run_is_first_and_a_lower_score_keeps_its_sign(shell: Shell) -> None:
    later = make_run(shell.folder / "runs" / "later")
    change(later, "update runs set direction = 'minimize'")
    change(later, "update candidates set merit = -score")
    change(later, "update run_states set at = at + 1000")
    lines = shell.pace("list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["run", "later", "circle_packing-1"]
    database = sqlite3.connect(later / "population.db")
    lowest = database.execute("select min(score) from candidates").fetchone()[0]
    database.close()
    assert json.loads(shell.pace("list", "--json").out)[0]["best_score"] == lowest


def test_a_run_without_a_process_is_cut_off_and_one_that_is_driven_runs(shell: Shell) -> None:
    run = shell.folder / "runs" / "circle_packing-1"
    change(run, "update run_states set state = 'running'")
    assert " cut off " in shell.pace("list").out
    with RunLock(run):
        assert " running " in shell.pace("list").out


def test_a_damaged_run_does_not_hide_the_others(shell: Shell) -> None:
    bad = shell.folder / "runs" / "bad"
    bad.mkdir()
    (bad / "population.db").write_bytes(b"no database at all" * 100)
    said = shell.pace("list")
    assert said.code == 0
    assert "cannot be read" in said.out
    assert " done " in said.out
    problems = {found["run"]: found["problem"] for found in json.loads(shell.pace("list", "--json").out)}
    assert problems["circle_packing-1"] is None
    assert "population.db" in problems["bad"]


def test_a_run_of_its_own_folder_or_of_a_database_is_listed_too(shell: Shell) -> None:
    run = shell.folder / "runs" / "circle_packing-1"
    of_folder = json.loads(shell.pace("list", str(run), "--json").out)
    of_database = json.loads(shell.pace("list", f"sqlite:///{run / 'population.db'}", "--json").out)
    assert of_folder[0]["candidates"] == of_database[0]["candidates"] == 40
    assert of_database[0]["driven"] is None


def test_a_missing_folder_is_one_sentence_and_an_empty_one_no_error(shell: Shell) -> None:
    said = shell.pace("list", "nowhere")
    assert (said.code, len(said.err.splitlines())) == (2, 1)
    (shell.folder / "empty").mkdir()
    assert "no run under empty" in shell.pace("list", "empty").out


def test_all_lists_runs_of_other_folders_and_those_that_are_gone(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACE_HOME", str(shell.folder / "home"))
    assert "no run in the index" in shell.pace("list", "--all").out
    elsewhere = make_run(shell.folder / "elsewhere" / "mine")
    for folder in (elsewhere, shell.folder / "removed"):
        remember_run(folder)
    rows = json.loads(shell.pace("list", "--all", "--json").out)
    assert [(row["run"], row["state"], row["folder"]) for row in rows] == [
        ("mine", "done", str(elsewhere)),
        ("removed", "gone", str(shell.folder / "removed")),
    ]
    heading, first, second = shell.pace("list", "--all").out.splitlines()
    assert heading.split()[-1] == "folder"
    assert first.endswith(str(elsewhere))
    assert second.split()[2] == "gone"
    assert shell.pace("list", "runs", "--all").code == 2


def test_a_removed_run_is_no_longer_in_the_index(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACE_HOME", str(shell.folder / "home"))
    remember_run(shell.folder / "runs" / "circle_packing-1")
    assert shell.pace("rm", "circle_packing-1", "--yes").code == 0
    assert "no run in the index" in shell.pace("list", "--all").out


def test_hostile_names_cannot_steer_the_terminal(shell: Shell) -> None:
    run = shell.folder / "runs" / "circle_packing-1"
    poison(run)
    assert "\x1b" not in shell.pace("list", f"sqlite:///{run / 'population.db'}").out


@pytest.mark.parametrize(("seconds", "says"), [(0.4, "0 s"), (59.0, "59 s"), (3599.0, "59 min"), (90000.0, "1 d")])
def test_an_age_is_in_the_largest_unit(seconds: float, says: str) -> None:
    assert age(seconds) == says
