"""Whole runs over a Ray cluster of two nodes on this machine: one of the nodes dies, or the runtime ends and comes
back."""

import os
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Self

import pytest

from pace_async.evaluate.on_ray.wire import machine_here
from tests.support.command_line import PACE
from tests.support.ray_nodes import NEEDS_RAY, ray_nodes

pytestmark = [NEEDS_RAY, pytest.mark.long, pytest.mark.timeout(300)]
TASK = Path(__file__).parents[3] / "tasks" / "circle_packing"
VERIFY = Path(__file__).parents[3] / "scripts" / "checks" / "verify_run.py"

HELD_S = 240.0
"""The longest wait for evaluations that are held, and for the end of the runtime."""
FREE = 6
"""So many programs are scored at once: the seed program and the first candidates."""
HELD = """

_fast_score = score


def score(instances, outputs):
    import pathlib
    with open({begins!r}, "a+") as begins:
        begins.write("begun\\n")
        begins.flush()
        begins.seek(0)
        count = len(begins.readlines())
    if count > {free} and not pathlib.Path({go!r}).exists():
        with open({held!r}, "r+b", buffering=0) as held, open({began!r}, "r+b", buffering=0) as began:
            began.write(b".")
            held.read(1)
    return _fast_score(instances, outputs)
"""


class HeldTask:
    """Circle packing whose evaluator writes a line whenever it begins to score, and waits in all but the first ones
    until it is let go. Use as a context manager: both pipes are open as long."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "held_packing"
        names = {name: str(folder / name) for name in ("begins", "go", "held", "began")}
        self._begins, self._go = folder / "begins", folder / "go"
        shutil.copytree(TASK, self.folder)
        with (self.folder / "evaluator.py").open("a") as evaluator:
            evaluator.write(HELD.format(free=FREE, **names))
        text = (self.folder / "task.yaml").read_text().replace("deterministic: true\n", "")
        (self.folder / "task.yaml").write_text(f"{text}\ndeterministic: false\n")
        for name in ("held", "began"):
            os.mkfifo(names[name])
        self._held, self._began = (os.open(names[name], os.O_RDWR) for name in ("held", "began"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        os.close(self._held)
        os.close(self._began)

    def wait_held(self, count: int) -> None:
        """Until so many evaluations wait."""
        for _ in range(count):
            ready, _, _ = select.select([self._began], [], [], HELD_S)
            assert ready, f"no further evaluation was held within {HELD_S:.0f} s"
            os.read(self._began, 1)

    def let_go(self) -> None:
        """All that wait, and those that begin later."""
        self._go.touch()
        os.write(self._held, b"." * 64)

    def begins(self) -> int:
        return len(self._begins.read_text().splitlines())


def started(folder: Path, *arguments: str, task: str = "circle_packing", **variables: str) -> "subprocess.Popen[str]":
    """A run, in a session of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | variables
    command = [PACE, "run", task, "--async", "--evaluators", "ray", "--display", "plain"]
    return subprocess.Popen(
        [*command, "--run-dir", str(folder), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def begun(folder: Path, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
    """A run, after one of its candidates was scored, and was the best so far."""
    process = started(folder, *arguments, **variables)
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if "scored" in line and "candidate" in line:
            return process
    raise AssertionError("".join(said))


def rows(folder: Path, sql: str) -> list[Any]:
    """The answer of the run's database."""
    with closing(sqlite3.connect(folder / "population.db")) as database:
        return database.execute(sql).fetchall()


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


@pytest.mark.nightly
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
        faults = rows(folder, "select kind, detail from faults where stage = 'evaluate'")
        places = rows(folder, "select node, machine from evaluation_attempts where lease > 0")
        assert {kind for kind, _ in faults} == {"actor_lost"}
        assert all(other[:6] in detail for _, detail in faults)
        assert None not in {node for node, _ in places}
        assert {machine for _, machine in places} == {machine_here()}


@pytest.mark.fault("Machines", "the runtime killed with evaluations under way, and resumed", only="killed")
@pytest.mark.fault("Machines", "the runtime drained for too long, and resumed", only="drained")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["killed", "drained"])
@pytest.mark.nightly
def test_what_was_under_way_when_a_runtime_ended_is_collected_by_the_next_and_begun_once(
    how: str, tmp_path: Path
) -> None:
    """SIGTERM drains for a second, and these evaluations take longer."""
    folder = tmp_path / "run"
    arguments = ["--candidates", "24", "--advisor", "bandit", "--set", "evaluation.slots=4"]
    arguments += ["--set", f"evaluation.ray_timeout_s={HELD_S}", "--set", "faults.drain_s=1"]
    with HeldTask(tmp_path) as task, ray_nodes(2, 2) as cluster:
        process = started(folder, *arguments, task=str(task.folder), RAY_ADDRESS=cluster.address)
        try:
            task.wait_held(2)
            if how == "drained":
                process.send_signal(signal.SIGTERM)
                process.wait(HELD_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == (-signal.SIGKILL if how == "killed" else 130), out
        ((recorded,),) = rows(folder, "select count(*) from evaluation_attempts")
        assert task.begins() - recorded >= 2  # under way
        task.let_go()
        environment = os.environ | {"RAY_ADDRESS": cluster.address}
        resume = [PACE, "resume", str(folder), "--display", "plain"]
        subprocess.run(resume, env=environment, capture_output=True, timeout=400, check=True)
    verified(folder, 24)
    outcomes = dict(rows(folder, "select outcome, count(*) from evaluation_attempts group by outcome"))
    assert task.begins() == outcomes.pop("ok") + outcomes.pop("invalid_score", 0)
    assert not outcomes.get("infrastructure_error")
    nodes = rows(folder, "select distinct node from evaluation_attempts where lease > 0")
    assert len(nodes) == 2 and None not in nodes[0]


@pytest.mark.nightly
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
