"""A forked candidate is process 1 of its namespaces: how it ends, which signals reach it, and which process reports its
end."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import psutil
import pytest

from pace_async.evaluate.sandbox import warm as warm_module
from pace_async.evaluate.sandbox.converse import Job
from pace_async.evaluate.sandbox.inside import calls
from pace_async.evaluate.sandbox.launch import launch
from pace_async.evaluate.sandbox.tiers import Bubblewrap, Limits, Plan
from pace_async.evaluate.sandbox.verdict import Verdict, judge
from pace_async.evaluate.sandbox.warm import WarmParent, WarmProcess
from tests.evaluate.sandbox.tiers import BWRAP, LIMITS, SHORT, Sandbox, left_alive, run_program, value_of

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux" or BWRAP is None, reason="a warm parent needs bubblewrap"),
]
TIER = Bubblewrap(BWRAP or "")
COLD, WARM = Sandbox(TIER), Sandbox(TIER, is_warm=True)


@dataclass(frozen=True, slots=True)
class OneSecond(Bubblewrap):
    """A program may work for a second, and is killed after two."""

    def plan(self, limits: Limits, hidden: Sequence[Path], scratch: Path | None) -> Plan:
        plan = Bubblewrap.plan(self, limits, hidden, scratch)
        asked = {**plan.confinement["limits"], "RLIMIT_CPU": 2}
        return replace(plan, confinement={**plan.confinement, "limits": asked})


@pytest.mark.parametrize("sandbox", [COLD, WARM], ids=["bubblewrap", "warm"])
async def test_a_program_that_has_used_up_its_processor_time_is_out_of_time(sandbox: Sandbox) -> None:
    limited = replace(sandbox, tier=OneSecond(BWRAP or ""))
    verdict, ended = await run_program(limited, "def f(x):\n    while True: pass")
    assert (verdict.outcome, ended.timed_out, ended.out_of_time) == ("timeout", False, True)


async def test_processor_time_of_its_children_is_not_counted_as_its_own() -> None:
    program = """
    import os, resource, signal, time
    def f(x):
        if os.fork() == 0:
            while time.process_time() < 1.2: pass
            os._exit(0)
        os.wait()
        resource.setrlimit(resource.RLIMIT_CPU, (0, 0))
        while True: pass
    """
    verdict, ended = await run_program(replace(WARM, tier=OneSecond(BWRAP or "")), program)
    assert (verdict.outcome, ended.exit_code, ended.out_of_time) == ("candidate_error", -signal.SIGKILL, False)


async def test_a_program_that_aborts_ends_by_a_signal_that_cannot_be_ignored() -> None:
    verdict, ended = await run_program(WARM, "import os\ndef f(x):\n    os.abort()")
    assert (verdict.outcome, verdict.detail[:27]) == ("candidate_error", "ended without a result (SIG")
    assert ended.exit_code < 0
    verdict, _ = await run_program(COLD, "import os\ndef f(x):\n    os.abort()")
    assert (verdict.outcome, verdict.detail) == ("candidate_error", "ended without a result (SIGABRT)")


async def test_its_signals_end_only_its_own_children() -> None:
    program = """
    import contextlib, os, signal, time
    def f(x):
        if os.fork() == 0:
            time.sleep(60)
        for target in (os.getpid(), 0, -1):
            for number in (signal.SIGTERM, signal.SIGABRT, signal.SIGXCPU, signal.SIGSTOP, signal.SIGKILL):
                with contextlib.suppress(OSError):
                    os.kill(target, number)
        return os.waitstatus_to_exitcode(os.wait()[1])
    """
    warm = await WARM.parent()
    assert warm is not None
    assert await value_of(WARM, program) in (-signal.SIGTERM, -signal.SIGKILL)
    assert await value_of(WARM, "def f(x):\n    return x", argument=1) == 1
    assert not warm.broken


async def test_orphans_of_its_children_are_its_own_and_end_with_it() -> None:
    name = f"orphan{os.getpid()}"
    program = """
    import ctypes, os, time
    def f(name):
        said, saying = os.pipe()
        if os.fork() == 0:
            if os.fork() == 0:
                ctypes.CDLL(None).prctl(15, name.encode())
                while os.getppid() != 1:
                    pass
                os.write(saying, b"1")
                time.sleep(60)
            os._exit(0)
        os.wait()
        return int(os.read(said, 1))
    """
    assert await value_of(WARM, program, argument=name) == 1
    assert left_alive(name) == []


@pytest.mark.fault("Programs as weapons", "process 1 of the sandbox written to")
@pytest.mark.skipif(not calls.MACHINE, reason="the system-call filter does not know this processor")
async def test_bubblewrap_as_process_1_of_a_cold_candidate_carries_the_filter_too() -> None:
    name = f"cold{os.getpid()}"
    program = f"import ctypes, time\ndef f(x):\n    ctypes.CDLL(None).prctl(15, {name.encode()})\n    time.sleep(60)"
    filtered: list[int] = []
    processes: list[str] = []
    async with anyio.create_task_group() as tg:
        tg.start_soon(run_program, COLD, program)
        with anyio.fail_after(30):
            while not (found := [one for one in psutil.process_iter(["name"]) if one.info["name"] == name]):
                await anyio.wait_all_tasks_blocked()
        filtered = [int(status_of(one)["Seccomp"]) for one in (found[0], found[0].parents()[0])]
        processes = [status_of(one)["NSpid"].split()[-1] for one in (found[0], found[0].parents()[0])]
        tg.cancel_scope.cancel()
    assert (filtered, processes) == ([2, 2], ["2", "1"])


def status_of(process: psutil.Process) -> dict[str, str]:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}


async def test_its_end_is_reported_after_it_has_ended() -> None:
    for body, code in (("os._exit(7)", 7), ("ctypes.string_at(0)", -signal.SIGSEGV)):
        _, ended = await run_program(WARM, f"import ctypes, os\ndef f(x):\n    {body}")
        assert (ended.exit_code, ended.timed_out) == (code, False)
    _, ended = await run_program(WARM, "def f(x):\n    while True: pass", limits=SHORT)
    assert (ended.exit_code, ended.timed_out) == (-signal.SIGKILL, True)


async def test_a_candidate_ends_with_its_parent_and_is_not_charged(parent: WarmParent) -> None:
    name = f"late{os.getpid()}"
    program = f"""
import ctypes, signal, time
def f(x):
    libc, asked = ctypes.CDLL(None), ctypes.c_int()
    libc.prctl(2, ctypes.byref(asked))
    libc.prctl(1, 0)  # do not tell me of my parent's death
    libc.prctl(15, {name.encode()} if asked.value == signal.SIGKILL else b"unbound")
    time.sleep(60)
"""
    verdicts: list[Verdict] = []

    async def run() -> None:
        verdicts.append(judge(await launch(TIER, Job(program, "f", ["0"]), LIMITS, (), parent)))

    async with anyio.create_task_group() as tg:
        tg.start_soon(run)
        with anyio.fail_after(30):
            while not any(one.info["name"] == name for one in psutil.process_iter(["name"])):
                await anyio.wait_all_tasks_blocked()
        psutil.Process(parent.pid).children(recursive=True)[1].send_signal(signal.SIGKILL)
    assert verdicts == [Verdict("infrastructure_error", "warm_parent: it ended, and this candidate with it")]
    assert parent.broken == "it died"
    assert left_alive(name) == []


class Told:
    """A parent that only remembers why it was given up."""

    broken = ""

    def give_up(self, reason: str) -> None:
        self.broken = reason


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (b"0 0.5", (0, 0.5, False, "")),
        (b"9 4.25", (-9, 4.25, False, "")),
        (b"", (-9, 0.0, True, "it died")),
        (None, (-9, 0.0, True, "it reports nothing")),
    ],
    ids=["ended", "killed", "parent_died", "parent_hangs"],
)
async def test_an_ended_candidate_is_lost_only_without_its_parents_report(
    word: bytes | None, expected: tuple[int, float, bool, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_module, "GRACE_S", 0.2)
    told = Told()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    child = subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220 (it is to be killed, and reaped at the end)
    with child, ours, contextlib.ExitStack() as stack:
        stack.callback(os.close, pidfd := os.pidfd_open(child.pid))
        process = WarmProcess(told.give_up, pidfd, ours)
        codes: list[int] = []

        async def kill() -> None:
            codes.append(await process.kill())

        async with anyio.create_task_group() as tg:
            tg.start_soon(kill)
            await anyio.wait_readable(pidfd)
            if word:
                theirs.send(word)
            if word is not None:
                theirs.close()
        assert child.wait() == -signal.SIGKILL
    theirs.close()
    assert (*codes, process.processor_s, process.lost is not None, told.broken) == expected
