"""A real run whose implementer is an agent: killed in the middle, resumed, finished."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.doubles import agents
from tests.support.real_runs import rows, wait_for_candidates

PACE = str(Path(sys.executable).with_name("pace"))
CANDIDATES, BUDGET, PRICE = 40, 1.0, 0.02

pytestmark = [
    pytest.mark.long,
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.fault("Implementer", "a run with an agent killed and resumed"),
]


@pytest.fixture(scope="module")
def killed_and_resumed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, set[int], list[int]]]:
    """The run's folder, the candidates committed when it was killed, and what of it was left alive."""
    folder = tmp_path_factory.mktemp("agent") / "run"
    folder.mkdir()
    (folder / "events.jsonl").touch()
    command = [sys.executable, "-I", "-S", str(Path(agents.__file__)), "apply", "0.01"]
    call = [PACE, "run", "--candidates", str(CANDIDATES), "--objective", "none", "--seed", "3", "--budget", str(BUDGET)]
    call += ["--implementer", "command", "--set", f"implementer.command={json.dumps(command)}"]
    call += ["--set", f"implementer.price_per_call={PRICE}", "--run-dir", str(folder), "--display", "none"]
    with subprocess.Popen(call, env={**os.environ, "AGENT_API_KEY": "canary-0123456789"}) as process:
        wait_for_candidates(folder, 8, process)
        family = psutil.Process(process.pid).children(recursive=True)
        before = {row[0] for row in rows(folder, "select candidate from candidates where candidate > 0")}
        process.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=10)
    again = [PACE, "resume", str(folder), "--display", "none"]
    done = subprocess.run(again, capture_output=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr.decode()
    yield folder, before, [process.pid for process in alive]


@pytest.mark.nightly
def test_no_agent_outlives_a_killed_run_and_no_candidate_is_lost(
    killed_and_resumed: tuple[Path, set[int], list[int]],
) -> None:
    folder, before, alive = killed_and_resumed
    assert alive == []
    after = [row[0] for row in rows(folder, "select candidate from candidates where candidate > 0")]
    assert before <= set(after)
    assert len(after) == len(set(after)) == CANDIDATES


def test_the_ledger_counts_each_call_once_and_holds_the_budget(
    killed_and_resumed: tuple[Path, set[int], list[int]],
) -> None:
    folder = killed_and_resumed[0]
    calls = rows(folder, "select outcome, cost_usd from implementer_calls")
    assert all(usd == (PRICE if outcome == "unknown" else 0.01) for outcome, usd in calls)
    assert rows(folder, "select count(*) from reservations where ordinal is null") == [(0,)]
    assert rows(folder, "select count(*) from reservations") == [(len(calls),)]
    status = json.loads(subprocess.check_output([PACE, "status", str(folder), "--json"], timeout=60))
    assert status["spend_usd"] == pytest.approx(sum(usd for _, usd in calls))
    assert status["spend_usd"] <= BUDGET


def test_candidates_come_from_the_agent_and_its_folders_are_gone(
    killed_and_resumed: tuple[Path, set[int], list[int]],
) -> None:
    folder = killed_and_resumed[0]
    scored = rows(folder, "select count(*) from candidates where outcome = 'ok' and candidate > 0")[0][0]
    assert scored >= CANDIDATES / 2
    assert not (folder / "agents").exists()
    assert not any(b"canary-0123456789" in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    shown = subprocess.check_output([PACE, "show", str(folder), "1", "--prompts"], text=True, timeout=60)
    assert "so that it carries out one experiment" in shown
