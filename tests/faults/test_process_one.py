"""As process 1 of a container, which is nobody's child and collects every orphan."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pace_async.children import PARENT, clean_environment
from tests.support.command_line import PACE

CHECKOUT = Path(__file__).parents[2]
FIRST = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""Runs a command as process 1 of a process namespace; only root can."""

pytestmark = pytest.mark.timeout(300)

STARTS_A_CHILD = """
import anyio, pathlib, sys
from pace_async.children import child, clean_environment
async def main():
    code = "from pace_async.children import die_with_parent; die_with_parent(); print('alive')"
    log, environment = pathlib.Path(sys.argv[1]), clean_environment()
    async with child([sys.executable, "-c", code], log=log, environment=environment) as it:
        print((await it.stdout.receive()).decode().strip(), flush=True)
anyio.run(main)
"""

WAITS = """
import os, signal, subprocess, sys, time
from pace_async.cli.process_one import leave_process_one
leave_process_one()
orphan = int(subprocess.run(["sh", "-c", "true & echo $!"], capture_output=True, check=True).stdout)
while os.path.exists(f"/proc/{orphan}"):
    time.sleep(0.001)
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
print(os.getpid(), flush=True)
while True:
    signal.pause()
"""


@pytest.fixture(autouse=True)
def can_be_first() -> None:
    if subprocess.run([*FIRST, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no process namespace can be made here")


@pytest.mark.fault("Being started and stopped", "as process 1 of a container")
def test_a_child_of_process_1_sees_that_its_parent_is_alive(tmp_path: Path) -> None:
    done = subprocess.run(
        [*FIRST, sys.executable, "-c", STARTS_A_CHILD, str(tmp_path / "log")],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_a_child_whose_parent_died_before_the_check_ends() -> None:
    code = "from pace_async.children import die_with_parent; die_with_parent(); print('alive')"
    for parent, said in ((os.getpid(), "alive\n"), (os.getppid(), "")):
        environment = clean_environment(**{PARENT: str(parent)})
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
        assert done.stdout == said


@pytest.mark.fault("Being started and stopped", "orphans and signals of process 1")
def test_process_1_reaps_orphans_forwards_signals_and_ends_like_the_command() -> None:
    with subprocess.Popen(
        [*FIRST, sys.executable, "-c", WAITS], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    ) as unshare:
        assert unshare.stdout is not None
        try:
            assert unshare.stdout.readline() == "2\n", (
                "the command is no process 1 any more, and its orphan was collected"
            )
            (first,) = psutil.Process(unshare.pid).children()
            first.send_signal(signal.SIGTERM)
            assert unshare.wait(60) == 7
        finally:
            unshare.kill()


@pytest.mark.long
@pytest.mark.fault("Being started and stopped", "as process 1 of a container")
@pytest.mark.nightly
def test_a_whole_run_as_process_1_ends_as_it_should(tmp_path: Path) -> None:
    command = (*FIRST, PACE, "run", "--candidates", "4", "--threads", "2", "--run-dir", "run", "--display", "plain")
    done = subprocess.run(
        [*command, "--set", "learner.group_size=4", "--set", "learner.k=2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "done: stop rule candidates met" in done.stdout
