"""A whole run over a Ray cluster of two nodes on this machine, one of which dies while the run goes on."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pace_async.evaluate.on_ray.wire import machine_here
from tests.support.command_line import PACE
from tests.support.ray_nodes import NEEDS_RAY, ray_nodes

pytestmark = [NEEDS_RAY, pytest.mark.long, pytest.mark.timeout(300)]
TASK = Path(__file__).parents[3] / "tasks" / "circle_packing"
VERIFY = Path(__file__).parents[3] / "scripts" / "checks" / "verify_run.py"


SLOW = """

_fast_score = score


def score(instances, outputs):
    import time
    with open({begins!r}, "a") as begins:
        begins.write("begun\\n")
    time.sleep(0.5)
    return _fast_score(instances, outputs)
"""


def slow_task(folder: Path) -> Path:
    """Circle packing whose evaluator takes its time, and writes a line whenever it begins to score."""
    shutil.copytree(TASK, folder)
    with (folder / "evaluator.py").open("a") as evaluator:
        evaluator.write(SLOW.format(begins=str(folder.parent / "begins")))
    text = (folder / "task.yaml").read_text().replace("deterministic: true\n", "")
    (folder / "task.yaml").write_text(f"{text}\ndeterministic: false\n")
    return folder


def begun(folder: Path, *arguments: str, task: str = "circle_packing", **variables: str) -> "subprocess.Popen[str]":
    """A run, after its first candidate was scored."""
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | variables
    command = [PACE, "run", task, "--async", "--evaluators", "ray", "--display", "plain"]
    process = subprocess.Popen(
        [*command, "--run-dir", str(folder), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if "scored" in line and "candidate" in line:
            return process
    raise AssertionError("".join(said))


def verified(folder: Path, candidates: int) -> str:
    done = subprocess.run(
        [sys.executable, str(VERIFY), str(folder), "--candidates", str(candidates)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.fault("Machines", "a node killed")
def test_a_run_over_two_nodes_ends_sound_though_one_of_them_dies(tmp_path: Path) -> None:
    with ray_nodes(1, 1) as cluster:
        other = cluster.add(1)
        folder = tmp_path / "run"
        arguments = ("--candidates", "32", "--set", "evaluation.slots=3")
        process = begun(folder, *arguments, RAY_ADDRESS=cluster.address)
        cluster.kill(other)
        out, _ = process.communicate(timeout=240)
        assert process.returncode == 0, out
        assert "Done after" in out and "(raylet)" not in out
        verified(folder, 32)
        with sqlite3.connect(folder / "population.db") as database:
            faults = database.execute("select kind, detail from faults where stage = 'evaluate'").fetchall()
            places = database.execute("select node, machine from evaluation_attempts where lease > 0").fetchall()
        assert {kind for kind, _ in faults} == {"actor_lost"}
        assert all(other[:6] in detail for _, detail in faults)
        assert None not in {node for node, _ in places}
        assert {machine for _, machine in places} == {machine_here()}


@pytest.mark.fault("Machines", "the runtime killed with evaluations under way, and resumed")
def test_a_runtime_that_is_killed_begins_no_evaluation_twice(tmp_path: Path) -> None:
    """What its actors had, the resumed one collects."""
    task, folder = slow_task(tmp_path / "slow"), tmp_path / "run"
    with ray_nodes(2, 2) as cluster:
        arguments = ("--candidates", "24", "--advisor", "bandit", "--set", "evaluation.slots=4")
        process = begun(folder, *arguments, task=str(task), RAY_ADDRESS=cluster.address)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        environment = os.environ | {"RAY_ADDRESS": cluster.address}
        resume = [PACE, "resume", str(folder), "--display", "plain"]
        subprocess.run(resume, env=environment, capture_output=True, timeout=240, check=True)
    verified(folder, 24)
    with sqlite3.connect(folder / "population.db") as database:
        rows = database.execute("select outcome, count(*) from evaluation_attempts group by outcome").fetchall()
        nodes = database.execute("select distinct node from evaluation_attempts where lease > 0").fetchall()
    begins = len((tmp_path / "begins").read_text().splitlines())
    scored = dict(rows)
    assert begins == scored.pop("ok") + scored.pop("invalid_score", 0)
    assert not scored.get("infrastructure_error")
    assert len(nodes) == 2 and None not in nodes[0]


def test_sigterm_drains_a_run_on_its_own_cluster_and_a_resume_goes_on_without_one(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = begun(folder, "--candidates", "4000", "--advisor", "bandit")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130, out
    assert "Interrupted after" in out and "SIGTERM received" not in out
    resume = [PACE, "resume", str(folder), "--candidates", "200", "--set", "evaluation.evaluators=local"]
    subprocess.run(resume, capture_output=True, timeout=240, check=True)
    verified(folder, 200)
