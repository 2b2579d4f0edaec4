"""pace compare: runs side by side, as a table, a drawing, JSON and a picture."""

import json
import sqlite3
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.command_line import Shell
from tests.support.finished_runs import copy_run, make_run, poison

RUN = "circle_packing-1"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("comparison") / "run")


@pytest.fixture
def shell(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    copy_run(finished, tmp_path)
    return Shell(tmp_path, monkeypatch, capsys)


def another(shell: Shell, name: str, *statements: str) -> None:
    folder = make_run(shell.folder / "runs" / name)
    database = sqlite3.connect(folder / "population.db")
    with database:
        for statement in statements:
            database.execute(statement)
    database.close()


SEED = "update runs set seed = 9, config = json_set(config, '$.seed', 9)"
OTHER = "update runs set config = json_set(config, '$.learner.k', 4)"
WORSE = "update candidates set score = score - 0.1, merit = merit - 0.1"


def test_seeds_are_one_arm_and_the_setting_that_differs_is_named(shell: Shell) -> None:
    another(shell, "seed", SEED, WORSE)
    another(shell, "other", OTHER)
    said = shell.pace("compare", RUN, "seed", "other")
    assert said.code == 0
    rows = [line.split() for line in said.out.splitlines()]
    assert [row[:3] for row in rows[1:4]] == [["A", RUN, "0"], ["A", "seed", "9"], ["B", "other", "0"]]
    assert "learner.k=2" in said.out and "learner.k=4" in said.out
    assert "40 candidates" in said.out


def test_json_has_the_same_with_intervals_and_the_curves(shell: Shell) -> None:
    another(shell, "seed", SEED, WORSE)
    another(shell, "third", OTHER)
    another(shell, "fourth", OTHER, SEED, WORSE)
    found = json.loads(shell.pace("compare", RUN, "seed", "third", "fourth", "--json").out)
    best = json.loads(shell.pace("best", RUN, "--json").out)["score"]
    assert found["runs"][0]["best_score"] == found["runs"][0]["curve"][-1][1] == best
    assert [arm["seeds"] for arm in found["arms"]] == [2, 2]
    assert found["arms"][0]["mean"] == pytest.approx(best - 0.05)
    [difference] = found["differences"]
    assert (difference["arm"], difference["against"]) == ("B", "A")
    assert difference["difference"] == pytest.approx(0.0)
    assert difference["low"] == pytest.approx(-difference["high"])
    assert difference["told_apart"] is False


@pytest.mark.parametrize(("name", "begins"), [("curve.svg", b"<?xml"), ("curve.PNG", b"\x89PNG")])
def test_the_curves_are_drawn_into_a_file_and_hostile_names_do_no_harm(shell: Shell, name: str, begins: bytes) -> None:
    another(shell, "seed", SEED, WORSE)
    poison(shell.folder / "runs" / "seed")
    url = f"sqlite:///{shell.folder}/runs/seed/population.db"
    said = shell.pace("compare", RUN, url, "--plot", name)
    assert said.code == 0, said.err
    assert "\x1b" not in said.out
    drawn = (shell.folder / name).read_bytes()
    assert drawn.startswith(begins)
    if name.endswith(".svg"):
        assert b"<script" not in drawn
        ElementTree.fromstring(drawn)


def test_another_task_and_another_kind_of_file_are_refused_in_a_sentence(shell: Shell) -> None:
    another(shell, "else", "update runs set task = 'knapsack'")
    for arguments, says in (((RUN, "else"), "different tasks"), ((RUN, "--plot", "curve.pdf"), ".svg or .png")):
        said = shell.pace("compare", *arguments)
        assert (said.code, len(said.err.splitlines())) == (2, 1)
        assert says in said.err


def test_without_matplotlib_the_plot_is_refused_and_the_table_is_not(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    said = shell.pace("compare", RUN, "--plot", "curve.svg")
    assert (said.code, "pip install 'pace-async[plot]'" in said.err) == (2, True)
    assert shell.pace("compare", RUN).code == 0


def test_a_folder_stands_for_all_its_runs(shell: Shell) -> None:
    another(shell, "seed", SEED, WORSE)
    of_folder = json.loads(shell.pace("compare", "runs", "--json").out)
    assert [each["run"] for each in of_folder["runs"]] == [RUN, "seed"]
    (shell.folder / "empty").mkdir()
    said = shell.pace("compare", "empty")
    assert (said.code, said.err) == (2, "pace: There is no run in the folder 'empty'.\n")
