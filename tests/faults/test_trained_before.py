"""A real run that begins with the advisor of another one: killed, resumed without the other one, and the same run."""

import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pace_async.weights import checkpoint_digests, version_digest
from tests.faults.invariants import assert_sound, candidates_of
from tests.support.real_runs import rows, wait_for_candidates

PACE = str(Path(sys.executable).with_name("pace"))
GROUP, GROUPS = 8, 3
CALLS = "select lease, purpose, text from advisor_calls order by lease, purpose"
CANDIDATES = "select candidate, parent, outcome, score, reward from candidates order by 1"
FIRST = "select purpose, text, logprobs from advisor_calls where lease = 1 and purpose = 'propose'"
GROUPS_MADE = "select group_number, update_number, state, alpha from groups order by 1"

pytestmark = [pytest.mark.long, pytest.mark.nightly, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Runs:
    """A run that begins with a trained advisor, and the same one killed and resumed after the advisor's run had gone.
    `digest` is that of the weights that were taken, and `cold` the FIRST answers of the run that trained them: it began
    from the same seed, with the advisor as it is given."""

    whole: Path
    killed: Path
    cold: list[tuple[Any, ...]]
    digest: str


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("trained")
    begin = [PACE, "run", "columnar", "--advisor", "reader", "--set", "advisor.calls=one", "--sync", "--threads"]
    begin += [str(GROUP), "--set", "learner.warmup=0", "--set", "reward.relative_to=parent", "--display", "none"]
    before, whole, killed = (folder / name for name in ("before", "whole", "killed"))
    begin += ["--seed", "3", "--candidates"]
    finished(*begin, str(2 * GROUP), "--run-dir", str(before))
    cold = rows(before, FIRST)
    begin += [str(GROUP * GROUPS), "--advisor-from", str(before)]
    finished(*begin, "--run-dir", str(whole))
    killed.mkdir()
    (killed / "events.jsonl").touch()
    with subprocess.Popen([*begin, "--run-dir", str(killed)]) as process:
        wait_for_candidates(killed, GROUP + 3, process)
        process.send_signal(signal.SIGKILL)
    newest = max((before / "learner" / "versions").iterdir())
    digest = version_digest(checkpoint_digests(newest))
    shutil.rmtree(before)
    kept = candidates_of(killed / "population.db")
    finished(PACE, "resume", str(killed), "--display", "none")
    assert_sound(killed / "population.db", kept=kept, finished=True)
    return Runs(whole, killed, cold, digest)


def finished(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_a_run_that_was_killed_goes_on_without_the_other_one_as_if_nothing_had_happened(runs: Runs) -> None:
    for asked in (CALLS, CANDIDATES, GROUPS_MADE):
        assert rows(runs.killed, asked) == rows(runs.whole, asked)
    assert rows(runs.whole, "select count(*) from groups where state = 'trained'")[0][0] >= 2


def test_version_0_is_what_the_other_run_trained_and_its_row_says_so(runs: Runs) -> None:
    assert version_digest(checkpoint_digests(runs.whole / "advisor")) == runs.digest
    [(said,)] = rows(runs.whole, "select json_extract(config, '$.advisor.start_from') from runs")
    assert said.endswith(f"#{runs.digest}")
    assert rows(runs.whole, FIRST) != runs.cold
    sampled = rows(runs.whole, "select oldest_version, count(*) from leases group by 1 order by 1")
    assert sampled[0] == (0, GROUP)
