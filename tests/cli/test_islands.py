"""pace show --islands: the state of each island of a run in which islands acted."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.support.command_line import Shell
from tests.support.island_runs import make_island_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_island_run(tmp_path_factory.mktemp("islands"))


@pytest.fixture
def shell(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    shutil.copytree(finished, tmp_path / "run")
    return Shell(tmp_path, monkeypatch, capsys)


def test_islands_are_shown_with_their_last_action_and_why(shell: Shell) -> None:
    found = json.loads(shell.pace("show", "run", "--islands", "--json").out)
    assert [one["island"] for one in found] == [1, 2, 3]
    database = sqlite3.connect(shell.folder / "run" / "population.db")
    rows = "select island, action, lease, candidate, ideas_taken from actions order by lease"
    latest = {island: tuple(rest) for island, *rest in database.execute(rows)}
    database.close()
    assert latest
    for one in found:
        acted = one["last_action"]
        told = acted and (acted["action"], acted["lease"], acted["candidate"], acted["ideas_taken"])
        assert told == latest.get(one["island"])
        assert 0.0 <= one["progress"] <= 1.0
        assert 0.0 <= one["momentum"] < 1.0
    assert sum(one["rollouts"] for one in found) == 30

    lines = shell.pace("show", "run", "--islands").out.splitlines()
    assert lines[0].split()[:5] == ["island", "rollouts", "best", "progress", "momentum"]
    for line, one in zip(lines[1:], found, strict=True):
        if one["last_action"] is not None:
            assert one["last_action"]["action"] in line
            assert line.endswith(one["last_action"]["why"])


def test_a_candidate_and_the_islands_exclude_each_other(shell: Shell) -> None:
    said = shell.pace("show", "run", "1", "--islands")
    assert said.code == 2
    assert "leave the candidate" in said.err
    assert json.loads(shell.pace("show", "run", "1", "--json").out)["candidate"] == 1
