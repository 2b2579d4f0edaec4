"""Real runs of an advisor that writes the code itself: a small model is trained on its edits, published, and killed and
resumed as if nothing had happened."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.invariants import assert_sound, candidates_of
from tests.support.real_runs import rows, wait_for_candidates
from tests.support.writing_model import save_writing_model, write_task

PACE = str(Path(sys.executable).with_name("pace"))
GROUP, GROUPS = 8, 3
CANDIDATES = GROUP * GROUPS
ROLLOUTS = """select c.candidate, c.island, c.parent, c.outcome, c.detail, c.score, c.reward, e.description, a.text
              from candidates c join advisor_calls a on a.lease = c.lease
              left join experiments e on e.lease = c.lease order by 1"""

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """It begins a run in the folder that is added to it."""
    folder = tmp_path_factory.mktemp("end_to_end")
    task, model = write_task(folder / "sizes"), save_writing_model(folder / "model")
    begin = [PACE, "run", str(task), "--advisor", str(model), "--set", "advisor.role=end_to_end"]
    begin += ["--set", "advisor.max_tokens=64", "--set", f"learner.group_size={GROUP}", "--threads", str(GROUP)]
    return [*begin, "--sync", "--seed", "3", "--candidates", str(CANDIDATES), "--display", "none", "--run-dir"]


@pytest.fixture(scope="module")
def whole(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that went through."""
    run = tmp_path_factory.mktemp("whole") / "run"
    finish(*command, str(run))
    return run


def finish(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_each_group_of_edits_makes_a_version_that_is_published_and_samples_the_next_ones(whole: Path) -> None:
    assert_sound(whole / "population.db", finished=True)
    assert rows(whole, "select count(*) from groups where state = 'trained'") == [(GROUPS,)]
    published = "select version from versions where state = 'published' and receipt is not null order by 1"
    assert rows(whole, published) == [(version,) for version in range(1, GROUPS + 1)]
    sampled = rows(whole, "select oldest_version, count(*) from leases group by 1 order by 1")
    assert sampled == [(version, GROUP) for version in range(GROUPS)]


def test_the_answer_is_the_edit_and_nobody_else_is_asked(whole: Path) -> None:
    assert rows(whole, "select count(*) from implementer_calls") == [(0,)]
    assert rows(whole, "select count(*), min(purpose), max(purpose) from advisor_calls") == [
        (CANDIDATES, "propose", "propose")
    ]
    scored = [row for row in rows(whole, ROLLOUTS) if row[3] == "ok"]
    assert len(scored) > GROUP
    for *_, score, _, experiment, answer in scored:
        assert experiment == answer
        assert f"size = {score:g}\n" in answer
    shown = subprocess.check_output([PACE, "show", str(whole), str(scored[0][0]), "--json"], timeout=60)
    assert json.loads(shown)["idea"] == scored[0][-1].split("\n")[0]


@pytest.mark.nightly
def test_a_run_that_was_killed_and_resumed_is_the_same_run(whole: Path, command: list[str], tmp_path: Path) -> None:
    killed = tmp_path / "run"
    killed.mkdir()
    (killed / "events.jsonl").touch()
    with subprocess.Popen([*command, str(killed)]) as process:
        wait_for_candidates(killed, GROUP + 3, process)
        process.send_signal(signal.SIGKILL)
    kept = candidates_of(killed / "population.db")
    finish(PACE, "resume", str(killed), "--display", "none")
    assert_sound(killed / "population.db", kept=kept, finished=True)
    assert rows(killed, ROLLOUTS) == rows(whole, ROLLOUTS)
    groups = "select group_number, alpha, update_number from groups order by 1"
    assert rows(killed, groups) == rows(whole, groups)
