"""Runs that earlier versions made open, report, are upgraded on both databases, get a journal, and go on."""

import json
import os
import subprocess
from pathlib import Path

import anyio
import pytest

from pace_async.population.schema import SCHEMA
from pace_async.population.store import Store
from pace_async.runtime.run_paths import RunPaths
from pace_async.task import load_task
from tests.support.command_line import PACE, Shell
from tests.support.earlier_runs import NAMES, REVISIONS, Which, earlier_run, move_to_server
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
    "before_journal": {
        "candidates": 35,
        "trained": 24,
        "skipped": 8,
        "aborted": 2,
        "expired": 0,
        "open": 7,
        "admitted": 41,
    },
}
BEST = {"finished": 2.50028794, "interrupted": 2.431006762, "before_journal": 2.465144}
FACTS = {"finished": 118, "interrupted": 163, "before_journal": 193}
"""Facts that the rows of each run give."""
DIGESTS = {
    "circle_packing": "65f9d4e199bf6267164199bea8a7708a",
    "eplb": "f6f54666016ebd26c6cc99168f198f7c",
    "kuairec": "62149204a1c71dc0266a66ebbe9fd2bc",
    "multi_evolve": "162872d4d2b9f40803f2a28921b39301",
    "txn_scheduling": "845d91dc8851c7ff4c47f9b4243722c4",
}
"""Of the tasks in version 0.1.0, except that kuairec uses a card since 0.2.0. A digest that its task does not know ends
every run of that task: give a task whose programs score otherwise a name of its own."""
RUNS = pytest.mark.parametrize("which", list(STATUS))


def upgrade(shell: Shell, which: Which) -> None:
    """Every reading command names the command that an older schema needs. After the upgrade none does."""
    if REVISIONS[which] != SCHEMA:
        for command in ("status", "best", "report"):
            refused = shell.pace(command, which)
            assert (refused.code, refused.out) == (2, "")
            assert "written by an older pace" in refused.err
            assert "pace db upgrade" in refused.err
    done = shell.pace("db", "upgrade", which, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["upgraded"] is (REVISIONS[which] != SCHEMA)
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


def gets_its_journal_once(shell: Shell, which: Which) -> None:
    """The first process that writes to the run gives it a journal, which the commands that read do not. Nothing that is
    said of the run changes, and the second process finds the journal."""
    place = RunPaths(shell.folder / which).population[0]
    before = said(shell, which)
    assert journal_of(shell, which) == "none: the run began in an earlier version"
    for _ in range(2):
        anyio.run(write_nothing, place, NAMES[which])
        assert journal_of(shell, which) == f"{FACTS[which]} facts, and the tables are theirs"
        assert said(shell, which) == before


def said(shell: Shell, which: Which) -> list[str]:
    """What status and report say of the run."""
    assert shell.pace("report", which).code == 0
    (page,) = (shell.folder / which).glob("*.html")
    return [shell.pace("status", which, "--json").out, page.read_text(encoding="utf-8")]


def journal_of(shell: Shell, which: Which) -> str:
    """What the audit finds of the run's journal."""
    checks = json.loads(shell.pace("db", "check", which, "--json").out)["checks"]
    return next(check["found"] for check in checks if check["check"] == f"journal ({NAMES[which]})")


async def write_nothing(place: str | Path, name: str) -> None:
    """Open the run as a resume does, and commit no fact."""
    async with Store.open(place, create=False) as store:
        await store.load(name)
        await store.commit()


@pytest.mark.long
@RUNS
def test_a_run_of_the_version_before_is_upgraded_and_reads_as_it_was(shell: Shell, which: Which) -> None:
    earlier_run(which, shell.folder)
    upgrade(shell, which)
    reads_as_it_was(shell, which)
    gets_its_journal_once(shell, which)


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("which", ["finished", "interrupted"])
def test_a_run_of_the_version_before_on_postgresql_is_upgraded_and_reads_as_it_was(
    shell: Shell, which: Which, postgres: PostgresServer
) -> None:
    move_to_server(earlier_run(which, shell.folder), postgres.new("template0"), which)
    upgrade(shell, which)
    reads_as_it_was(shell, which)
    gets_its_journal_once(shell, which)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.nightly
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
    assert int(journal_of(shell, "interrupted").partition(" ")[0]) > FACTS["interrupted"]


@pytest.mark.parametrize(("name", "digest"), DIGESTS.items())
def test_a_bundled_task_scores_as_that_of_the_version_before_so_its_runs_go_on(name: str, digest: str) -> None:
    assert load_task(name).scores_as(digest)
