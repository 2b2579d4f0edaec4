"""Ctrl-C once, twice and three times, SIGTERM, two processes at one run, and a machine that slept.

The real database, simulated stages."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from pace_async.children import clean_environment
from pace_async.population.lock import RunLock
from pace_async.runtime.start.signals import ends_as_by_ctrl_c
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.stages import World
from tests.doubles.clocks import Sleepy
from tests.faults.invariants import assert_sound
from tests.support.changed_stages import change_stages
from tests.support.command_line import Shell
from tests.support.short_runs import SHAPE, goes_on_to_its_end, hold
from tests.support.simulated_runs import Simulated, settings, simulated


async def states(run: Simulated) -> list[str]:
    return [row["state"] for row in await run.store.query("select state from run_states order by number")]


@pytest.mark.long
@pytest.mark.fault("Crash and resume", "one Ctrl-C drains", only="SIGINT")
@pytest.mark.fault("Crash and resume", "SIGTERM drains", only="SIGTERM")
@pytest.mark.fault("Being started and stopped", "SIGHUP drains like SIGTERM", only="SIGHUP")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["SIGINT", "SIGTERM", "SIGHUP"])
async def test_one_signal_drains_what_runs_is_finished_and_nothing_new_begins(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with simulated(tmp_path, settings(**SHAPE), World(seed=9)) as run:
        held, ended, admitted = hold(run), list[str](), list[object]()

        async def drive_it() -> None:
            ended.append(await drive(run.core, signals=True))

        with anyio.fail_after(100):
            async with anyio.create_task_group() as group:
                group.start_soon(drive_it)
                await held.all_wait.wait()
                admitted += await run.store.query("select count(*) n from leases")
                os.kill(os.getpid(), number)
                await run.core.wait_until(lambda: run.core.stopping is not None)
                if number == signal.SIGHUP:  # the terminal and the shell may both tell of it
                    os.kill(os.getpid(), number)
                held.let_go.set()
        assert ended == ["interrupted"]
        assert await run.store.query("select count(*) n from leases") == admitted
        assert (await states(run))[-2:] == ["draining", "interrupted"]
        [told] = await run.store.query("select reason from run_states where state = 'draining'")
        assert told["reason"] == f"interrupted, for at most {run.core.config.faults.drain_s:g} s"
        assert await run.store.query("select lease from leases where stage in ('admitted', 'advised')") == []
    await goes_on_to_its_end(tmp_path)


@pytest.mark.long
@pytest.mark.fault("Being started and stopped", "a closed terminal drains")
def test_a_run_whose_terminal_is_closed_drains(tmp_path: Path) -> None:
    terminal, its_end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.hung_up", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env=clean_environment(),
        stdin=its_end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        os.close(its_end)
        assert process.stdout is not None
        try:
            assert process.stdout.readline().strip() == "evaluating"
            os.close(terminal)
            said, complaint = process.communicate(timeout=60)
        finally:
            process.kill()
    assert said.split() == ["draining", "interrupted"], complaint
    assert process.returncode == 0
    assert_sound(tmp_path / "population.db")


def test_signals_before_the_search_act_like_ctrl_c() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        with pytest.raises(KeyboardInterrupt), ends_as_by_ctrl_c():
            signal.raise_signal(number)
    assert {number: signal.getsignal(number) for number in before} == before


def test_a_run_under_nohup_outlives_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ends_as_by_ctrl_c():
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.fault("Being started and stopped", "two signals")
async def test_a_signal_in_the_last_clean_up_does_not_end_it(tmp_path: Path) -> None:
    """When the search has ended the receiver of signals is closed, which would leave SIGTERM to kill the process."""
    before = signal.getsignal(signal.SIGTERM)
    async with simulated(tmp_path, settings(**SHAPE), World(seed=9)) as run:
        with ends_as_by_ctrl_c(), anyio.fail_after(100):
            assert await drive(run.core, signals=True) == "done"
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.raise_signal(number)
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.long
@pytest.mark.fault("Being started and stopped", "two signals")
@pytest.mark.fault("Crash and resume", "two Ctrl-C cancel")
async def test_a_second_signal_cancels_and_leaves_what_was_running_for_a_resume(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(**SHAPE), World(seed=9)) as run:
        held, ended = hold(run), list[str]()

        async def drive_it() -> None:
            ended.append(await drive(run.core, signals=True))

        with anyio.fail_after(100):
            async with anyio.create_task_group() as group:
                group.start_soon(drive_it)
                await held.all_wait.wait()
                os.kill(os.getpid(), signal.SIGINT)
                await run.core.wait_until(lambda: run.core.stopping is not None)
                os.kill(os.getpid(), signal.SIGINT)
        assert ended == ["interrupted"]
        running = await run.store.query("select lease from leases where stage = 'advised' and state = 'open'")
        assert len(running) == SHAPE["search__threads"]
    await goes_on_to_its_end(tmp_path)


@pytest.mark.long
@pytest.mark.fault("Crash and resume", "SIGTERM drains")
async def test_a_drain_that_takes_longer_than_its_deadline_leaves_the_rest_for_a_resume(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(**SHAPE, faults__drain_s=0.05), World(seed=9)) as run:
        held = hold(run)
        with anyio.fail_after(100):
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: drive(run.core, signals=True))
                await held.all_wait.wait()
                os.kill(os.getpid(), signal.SIGTERM)
        assert (await states(run))[-1] == "interrupted"
    await goes_on_to_its_end(tmp_path)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.fault("Crash and resume", "three Ctrl-C exit")
def test_a_third_ctrl_c_ends_a_run_that_cannot_be_cancelled(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.stubborn", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for word in ("evaluating", "draining", "cancelled"):
                assert process.stdout.readline().strip() == word
                process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert_sound(tmp_path / "population.db")


async def begin(folder: Path) -> None:
    async with simulated(folder, settings(**SHAPE), World()):
        pass


@pytest.mark.fault("Crash and resume", "a second resume is refused and names the holder")
def test_a_running_run_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    anyio.run(begin, folder)
    before = (folder / "population.db").read_bytes()
    with RunLock(folder):
        said = Shell(tmp_path, monkeypatch, capsys).pace("resume", "run")
    assert said.code == 4
    assert f"process {os.getpid()}" in said.err
    assert (folder / "population.db").read_bytes() == before


@pytest.mark.long
@pytest.mark.fault("Crash and resume", "a machine that slept makes nothing stale")
async def test_hours_that_pass_while_the_machine_sleeps_make_nothing_stale(tmp_path: Path) -> None:
    failing = World(seed=2, fails=lambda stage, call: stage in ("advise", "evaluate") and call % 9 == 0)
    async with simulated(tmp_path, settings(**SHAPE), failing) as run:
        change_stages(run.core, clock=Sleepy())
        with anyio.fail_after(100):
            assert await drive(run.core) == "done"
        [span] = await run.store.query("select max(at) - min(at) s from candidates where candidate > 0")
        [closed] = await run.store.query("select sum(state = 'expired') expired, max(staleness) worst from leases")
        assert span["s"] > 100 * 3600
        assert closed["expired"] == 0
        assert closed["worst"] <= 2
    assert_sound(tmp_path / "population.db", finished=True)
