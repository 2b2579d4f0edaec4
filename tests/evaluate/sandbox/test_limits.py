"""What every sandbox tier bounds: time, processes, output and memory."""

import os
import sys
import time

import anyio
import psutil
import pytest

from pace_async.evaluate.sandbox import cgroup
from pace_async.evaluate.sandbox.verdict import doubt
from tests.evaluate.sandbox.tiers import (
    SANDBOXES,
    SHORT,
    Sandbox,
    left_alive,
    run_program,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
each_sandbox = pytest.mark.parametrize("sandbox", SANDBOXES)


@pytest.mark.long
@pytest.mark.fault("Sandbox", "endless loop")
@each_sandbox
async def test_an_endless_loop_ends_at_the_limit(sandbox: Sandbox) -> None:
    verdict, ended = await run_program(sandbox, "def f(x):\n    while True: pass", limits=SHORT)
    assert verdict.outcome == "timeout"
    assert ended.seconds >= SHORT.seconds


@pytest.mark.fault("Sandbox", "ignores SIGTERM")
@each_sandbox
async def test_a_program_that_ignores_sigterm_ends_at_the_limit(sandbox: Sandbox) -> None:
    program = """
    import signal, time
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    def f(x):
        time.sleep(60)
    """
    verdict, _ = await run_program(sandbox, program, limits=SHORT)
    assert verdict.outcome == "timeout"


@pytest.mark.fault("Sandbox", "detached grandchild that holds stdout")
@each_sandbox
async def test_a_detached_grandchild_that_holds_stdout_neither_hangs_nor_survives(sandbox: Sandbox) -> None:
    name = f"left{os.getpid()}"
    program = """
    import contextlib, ctypes, os, time
    def f(name):
        if os.fork() == 0:
            with contextlib.suppress(OSError):
                os.setsid()
            ctypes.CDLL(None).prctl(15, name.encode())
            if os.fork() == 0:
                time.sleep(60)
            os._exit(0)
        os.wait()
        return "done"
    """
    began = time.monotonic()
    verdict, ended = await run_program(sandbox, program, argument=name)
    assert verdict.outcome == "ok"
    assert not ended.survivors
    assert time.monotonic() - began < 20
    assert left_alive(name) == []


@pytest.mark.fault("Sandbox", "fork bomb")
@each_sandbox
async def test_a_fork_bomb_is_bounded_and_leaves_no_process(sandbox: Sandbox) -> None:
    name = f"bomb{os.getpid()}"
    program = """
    import ctypes, os, time
    def f(name):
        ctypes.CDLL(None).prctl(15, name.encode())
        while True:
            try:
                os.fork()
            except OSError:
                time.sleep(0.05)
    """
    verdict, ended = await run_program(sandbox, program, argument=name, limits=SHORT)
    assert verdict.outcome == "timeout"
    assert not ended.survivors
    assert left_alive(name) == []


@pytest.mark.fault("Sandbox", "300 MB of output")
@each_sandbox
async def test_300_megabytes_of_output_are_cut_off(sandbox: Sandbox) -> None:
    program = """
    import os
    def f(x):
        for _ in range(300):
            os.write(1, b"\\xff" * (1 << 20))
    """
    verdict, ended = await run_program(sandbox, program)
    assert verdict.outcome == "output_overflow"
    assert len(ended.stdout) <= 4096


@each_sandbox
async def test_a_result_beyond_the_output_limit_is_an_overflow_not_a_forgery(sandbox: Sandbox) -> None:
    verdict, _ = await run_program(sandbox, "def f(x):\n    return 'x' * (4 << 20)")
    assert verdict.outcome == "output_overflow"


@pytest.mark.fault("Sandbox", "no newline and invalid UTF-8")
@each_sandbox
async def test_little_output_in_any_bytes_does_no_harm(sandbox: Sandbox) -> None:
    program = """
    import sys
    def f(x):
        sys.stdout.buffer.write(b"\\xff\\x00\\x1b[2J no newline")
        print("said", file=sys.stderr)
        return 1
    """
    verdict, ended = await run_program(sandbox, program)
    assert verdict.outcome == "ok"
    assert ended.stderr == b"said\n"


@pytest.mark.fault("Sandbox", "memory of one process")
@each_sandbox
async def test_memory_beyond_the_limit_is_out_of_memory(sandbox: Sandbox) -> None:
    verdict, _ = await run_program(sandbox, "def f(x):\n    return len(bytearray(2 << 30))")
    assert verdict.outcome == "out_of_memory"


@pytest.mark.fault("Sandbox", "memory of one process")
@each_sandbox
async def test_memory_taken_in_small_pieces_is_out_of_memory(sandbox: Sandbox) -> None:
    verdict, _ = await run_program(sandbox, "kept = []\ndef f(x):\n    while True: kept.append(bytearray(1 << 20))")
    assert verdict.outcome == "out_of_memory"


@pytest.mark.fault("Sandbox", "killed by somebody else")
@each_sandbox
async def test_a_kill_from_outside_is_not_out_of_memory(sandbox: Sandbox) -> None:
    name = f"kill{os.getpid()}"
    program = "import ctypes, time\ndef f(name):\n    ctypes.CDLL(None).prctl(15, name.encode())\n    time.sleep(60)"
    found: list[tuple[str, int, str | None]] = []

    async def run() -> None:
        verdict, ended = await run_program(sandbox, program, argument=name)
        found.append((verdict.outcome, ended.exit_code, doubt(ended, 1.0)))

    async with anyio.create_task_group() as tg:
        tg.start_soon(run)
        with anyio.fail_after(30):
            while not (named := [one for one in psutil.process_iter(["name"]) if one.info["name"] == name]):
                await anyio.wait_all_tasks_blocked()
        named[0].kill()
    assert found == [("candidate_error", -9, "killed")]


@pytest.mark.fault("Sandbox", "memory of a family")
@each_sandbox
async def test_all_processes_of_a_candidate_share_one_memory_limit(sandbox: Sandbox) -> None:
    if cgroup.find() is None:
        pytest.skip("no control group can be made here, and nothing else holds a family")
    program = """
    import os, time
    def f(x):
        for _ in range(8):
            if os.fork() == 0:
                held = bytearray(100 << 20)
                time.sleep(60)
        if os.wait()[1]:  # whichever was killed first
            raise RuntimeError("a child was killed")
        return "all fitted"
    """
    verdict, ended = await run_program(sandbox, program)
    assert verdict.outcome == "out_of_memory"
    assert not ended.survivors
