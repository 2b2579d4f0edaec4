"""A run whose objective is none: nothing that is shown of it speaks of training."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.config import StopConfig
from pace_async.observe.layout import frame
from pace_async.observe.model import RunView
from pace_async.observe.plain import figures, heading
from tests.support.command_line import Shell
from tests.support.finished_runs import copy_run, make_run
from tests.support.population_facts import HEADER

VIEW = RunView(replace(HEADER, objective="none"), StopConfig())
TRAINING = ("groups", "staleness", "stale", "alpha", "entropy", "versions")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    run = copy_run(make_run(tmp_path / "made"), tmp_path)
    database = sqlite3.connect(run / "population.db")
    with database:
        database.execute("update runs set objective = 'none'")
        database.execute("pragma ignore_check_constraints = 1")
        database.execute(
            "update leases set state = 'skipped', group_number = null, trained_by = null, staleness = null"
        )
        database.execute("delete from versions")
        database.execute("delete from groups")
    database.close()
    return Shell(tmp_path, monkeypatch, capsys)


def test_status_and_report_say_why_nothing_is_trained(shell: Shell) -> None:
    lines = shell.pace("status").out.splitlines()
    assert [line.split(maxsplit=1) for line in lines if line.startswith("learning")] == [
        ["learning", "none: the advisor stays as it was given"]
    ]
    assert not {line.split()[0] for line in lines} & set(TRAINING)
    shell.pace("report", "-o", "report.html")
    page = (shell.folder / "report.html").read_text()
    assert "No group has been trained: the advisor stays as it was given." in page
    assert "groups trained" not in page and "worst staleness" not in page


def test_plain_output_and_the_narrow_screen_leave_training_out() -> None:
    shown = "\n".join([heading(VIEW), figures(VIEW, 0.0), *(line.plain for line in frame(VIEW, 0.0, 40, 24))])
    assert not [word for word in TRAINING if word in shown] and "objective none" in shown
    learning = replace(VIEW, header=HEADER)
    shown = "\n".join(
        [heading(learning), figures(learning, 0.0), *(line.plain for line in frame(learning, 0.0, 40, 24))]
    )
    assert [word for word in TRAINING if word in shown] == ["groups", "staleness", "stale", "alpha", "entropy"]
