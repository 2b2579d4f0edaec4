"""Runs that version 0.1.0 made open, report, are upgraded on both databases, and go on."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from pace_async.population.schema import SCHEMA
from pace_async.task import load_task
from tests.support.command_line import PACE, Shell
from tests.support.earlier_runs import REVISION, Which, earlier_run, move_to_server
from tests.support.postgres import PostgresServer

STATUS = {
    "finished": {"candidates": 24, "trained": 20, "skipped": 4, "aborted": 0, "expired": 0, "open": 0, "admitted": 24},
    "interrupted": {
        "candidates": 35,
        "trained": 12,
        "skipped": 16,
        "aborted": 0,
        "expired": 0,
        "open": 8,
        "admitted": 36,
    },
}
BEST = {"finished": 2.50028794, "interrupted": 2.431006762}
DIGESTS = {
    "circle_packing": "65f9d4e199bf6267164199bea8a7708a",
    "eplb": "f6f54666016ebd26c6cc99168f198f7c",
    "kuairec": "62149204a1c71dc0266a66ebbe9fd2bc",
    "multi_evolve": "162872d4d2b9f40803f2a28921b39301",
    "txn_scheduling": "845d91dc8851c7ff4c47f9b4243722c4",
}
"""Of the tasks in version 0.1.0, except that kuairec uses a card since 0.2.0. A digest that its task does not know ends
every run of that task: give a task whose programs score otherwise a name of its own."""
RUNS = pytest.mark.parametrize("which", ["finished", "interrupted"])


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


def upgrade(shell: Shell, which: Which) -> None:
    """Every reading command names the command that an older schema needs. After the upgrade none does."""
    if REVISION != SCHEMA:
        for command in ("status", "best", "report"):
            refused = shell.pace(command, which)
            assert (refused.code, refused.out) == (2, "")
            assert "written by an older pace" in refused.err
            assert "pace db upgrade" in refused.err
    done = shell.pace("db", "upgrade", which, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["upgraded"] is (REVISION != SCHEMA)
    assert json.loads(shell.pace("db", "upgrade", which, "--json").out)["upgraded"] is False


def reads_as_it_was(shell: Shell, which: Which) -> None:
    """Status, best, report and the audit say of the run what the version before said."""
    status = json.loads(shell.pace("status", which, "--json").out)
    assert {key: status[key] for key in STATUS[which]} == STATUS[which]
    assert status["best_score"] == pytest.approx(BEST[which])
    best = json.loads(shell.pace("best", which, "--json").out)
    assert best["score"] == pytest.approx(BEST[which])
    assert "EVOLVE-BLOCK-START" in best["program"]
    report = shell.pace("report", which)
    assert report.code == 0, report.err
    (page,) = (shell.folder / which).glob("*.html")
    assert f"{BEST[which]:.4f}" in page.read_text(encoding="utf-8")
    audit = json.loads(shell.pace("db", "check", which, "--json").out)
    assert audit["sound"], audit


@RUNS
def test_a_run_of_the_version_before_is_upgraded_and_reads_as_it_was(shell: Shell, which: Which) -> None:
    earlier_run(which, shell.folder)
    upgrade(shell, which)
    reads_as_it_was(shell, which)


@RUNS
def test_a_run_of_the_version_before_on_postgresql_is_upgraded_and_reads_as_it_was(
    shell: Shell, which: Which, postgres: PostgresServer
) -> None:
    move_to_server(earlier_run(which, shell.folder), postgres.new("template0"))
    upgrade(shell, which)
    reads_as_it_was(shell, which)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_run_that_was_killed_under_the_version_before_goes_on_and_audits_sound(shell: Shell) -> None:
    earlier_run("interrupted", shell.folder)
    upgrade(shell, "interrupted")
    done = subprocess.run(
        [PACE, "resume", "interrupted", "--candidates", "40", "--display", "plain"],
        cwd=shell.folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    status = json.loads(shell.pace("status", "interrupted", "--json").out)
    assert status["candidates"] >= 40
    assert status["trained"] >= 20  # the groups under way when it was killed are trained, each once
    assert status["max_trained_staleness"] <= 2
    assert json.loads(shell.pace("db", "check", "interrupted", "--json").out)["sound"]


@pytest.mark.parametrize(("name", "digest"), DIGESTS.items())
def test_a_bundled_task_scores_as_that_of_the_version_before_so_its_runs_go_on(name: str, digest: str) -> None:
    assert load_task(name).scores_as(digest)
