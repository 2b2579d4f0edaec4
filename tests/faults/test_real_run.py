"""A real run: real engine, learner, sandbox and database, on the advisor in the package. Killed, resumed, finished."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.real_runs import rows, wait_for_candidates

PACE = str(Path(sys.executable).with_name("pace"))
CANDIDATES = 72

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def killed_and_resumed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, set[object], list[int]]]:
    """The run's folder, the candidates that were committed when it was killed, and what was left alive of it."""
    folder = tmp_path_factory.mktemp("real") / "run"
    command = [PACE, "run", "--async", "--max-staleness", "2", "--candidates", str(CANDIDATES), "--seed", "3"]
    folder.mkdir()
    (folder / "events.jsonl").touch()
    with subprocess.Popen([*command, "--run-dir", str(folder), "--display", "none"]) as process:
        wait_for_candidates(folder, 16, process)
        family = psutil.Process(process.pid).children(recursive=True)
        before = {row[0] for row in rows(folder, "select candidate from candidates where candidate > 0")}
        process.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=10)
    done = subprocess.run(
        [PACE, "resume", str(folder), "--display", "none"], capture_output=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    yield folder, before, [process.pid for process in alive]


@pytest.mark.nightly
@pytest.mark.fault("Crash and resume", "a real run killed and resumed")
@pytest.mark.fault("Sandbox", "the runtime killed")
def test_no_child_outlives_a_killed_runtime(killed_and_resumed: tuple[Path, set[object], list[int]]) -> None:
    assert killed_and_resumed[2] == []


@pytest.mark.fault("Crash and resume", "a real run killed and resumed")
def test_every_committed_candidate_survives_kill_9(killed_and_resumed: tuple[Path, set[object], list[int]]) -> None:
    folder, before, _ = killed_and_resumed
    after = [row[0] for row in rows(folder, "select candidate from candidates where candidate > 0")]
    assert len(before) >= 15
    assert before <= set(after)
    assert len(after) == len(set(after)) == CANDIDATES


@pytest.mark.fault("Crash and resume", "a real run killed and resumed")
def test_groups_are_trained_once_within_the_bound(killed_and_resumed: tuple[Path, set[object], list[int]]) -> None:
    folder = killed_and_resumed[0]
    trained = [row[0] for row in rows(folder, "select update_number from groups where state = 'trained' order by 1")]
    assert trained == list(range(len(trained)))
    assert len(trained) >= 2
    worst = rows(folder, "select max(staleness) from leases where state = 'trained'")[0][0]
    assert isinstance(worst, int)
    assert worst <= 2
    states = dict(rows(folder, "select state, count(*) from leases group by state"))
    assert sum(int(str(n)) for n in states.values()) == rows(folder, "select count(*) from leases")[0][0]
    assert rows(folder, "pragma integrity_check") == [("ok",)]
    assert rows(folder, "pragma foreign_key_check") == []


def test_later_rollouts_are_sampled_from_published_versions(
    killed_and_resumed: tuple[Path, set[object], list[int]],
) -> None:
    folder = killed_and_resumed[0]
    newest = rows(folder, "select max(oldest_version) from leases")[0][0]
    assert isinstance(newest, int)
    assert newest >= 1
    tensors = rows(folder, "select count(*) from versions where state = 'published' and receipt is not null")
    assert tensors[0][0] == rows(folder, "select count(*) from groups where state = 'trained'")[0][0]


def test_a_finished_run_has_nothing_to_resume_and_reads_well(
    killed_and_resumed: tuple[Path, set[object], list[int]],
) -> None:
    folder = killed_and_resumed[0]
    again = subprocess.run([PACE, "resume", str(folder)], capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 0
    assert "nothing to do" in again.stdout
    status = json.loads(subprocess.check_output([PACE, "status", str(folder), "--json"], timeout=60))
    assert status["state"] == "done"
    assert status["candidates"] == CANDIDATES
    assert status["expired"] == 0
    best = json.loads(subprocess.check_output([PACE, "best", str(folder), "--json"], timeout=60))
    assert best["score"] == status["best_score"]
    assert Path(best["path"]).read_text() == best["program"]
    shown = subprocess.check_output([PACE, "show", str(folder), str(best["candidate"])], text=True, timeout=60)
    assert "changes of candidate" in shown


@pytest.mark.fault("Crash and resume", "one Ctrl-C drains")
def test_ctrl_c_drains_and_resume_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "events.jsonl").touch()
    command = [PACE, "run", "--candidates", "400", "--run-dir", str(folder), "--display", "plain"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
        wait_for_candidates(folder, 4, process)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 130
    assert b"pace resume" in said
    assert rows(folder, "select count(*) from leases where stage in ('admitted', 'advised')") == [(0,)]
