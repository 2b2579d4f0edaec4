"""A real run that its length limit stopped goes on where it was, once the limit is raised on resume."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pace_async.task import load_task
from tests.support.command_line import PACE

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def pace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PACE, *arguments], capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.nightly
def test_a_run_stopped_by_the_length_limit_is_resumed_to_its_end(tmp_path: Path) -> None:
    task = Path(shutil.copytree(load_task("circle_packing").folder, tmp_path / "task"))
    wide = (task / "task.yaml").read_text().replace("lower: 2.3", "lower: 0.5")  # so that rewards differ from the start
    (task / "task.yaml").write_text(wide)
    folder = str(tmp_path / "run")
    limits = ("--set", "learner.max_length=64", "--set", "learner.group_size=4", "--set", "learner.k=2")
    stopped = pace("run", str(task), "--threads", "4", "--candidates", "8", *limits, "--run-dir", folder)
    assert stopped.returncode == 2, stopped.stderr
    said = re.fullmatch(
        r"pace: Lease \d+ has a call of (\d+) tokens and learner\.max_length is 64: raise it, with `pace resume RUN "
        r"--set learner\.max_length=\1` or more\.",
        stopped.stderr.splitlines()[-1],
    )
    assert said is not None, stopped.stderr
    enough = f"learner.max_length={2 * int(said[1])}"
    refused = pace("resume", folder, "--set", enough, "--set", "learner.learning_rate=0.1")
    assert refused.returncode == 2
    assert "learner.learning_rate is 1e-06 in this run" in refused.stderr
    resumed = pace("resume", folder, "--set", enough, "--display", "none")
    assert resumed.returncode == 0, resumed.stderr
    status = json.loads(pace("status", folder, "--json").stdout)
    assert (status["state"], status["candidates"], status["open"]) == ("done", 8, 0)
    assert status["trained"] >= 4, "the group that was refused, at least"
    changed = json.loads(pace("db", "sql", folder, "select key, before, after from setting_changes", "--json").stdout)
    assert changed == [{"key": "learner.max_length", "before": "64", "after": str(2 * int(said[1]))}]
