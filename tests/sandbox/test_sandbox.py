"""What every sandbox tier must hold: whatever a candidate does, it ends in time, is judged, and leaves nothing."""

import os
import sys
import time
from pathlib import Path
from tempfile import gettempdir

import anyio
import psutil
import pytest

from pace_async.errors import InfrastructureFault
from pace_async.evaluate import cgroup, leftovers
from pace_async.evaluate.doubt import doubt
from pace_async.evaluate.launch import launch
from pace_async.evaluate.tiers import Bubblewrap, Limits
from pace_async.evaluate.verdict import judge
from pace_async.evaluate.work import Work
from tests.sandbox.tiers import (
    BWRAP,
    LIMITS,
    SANDBOXES,
    SHORT,
    Sandbox,
    left_alive,
    left_below,
    run_program,
    value_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")]
BORN_WITH = Path("/proc/self/environ").read_text(errors="replace").split("\0")
each_sandbox = pytest.mark.parametrize("sandbox", SANDBOXES)


@each_sandbox
async def test_a_result_comes_back_with_numpy_values_as_plain_json(sandbox: Sandbox) -> None:
    program = """
    import numpy as np
    def f(x):
        return {"array": np.arange(3), "number": np.float64(x), "whole": np.int64(2)}
    """
    assert await value_of(sandbox, program, argument=1.5) == {"array": [0, 1, 2], "number": 1.5, "whole": 2}


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
async def test_a_kill_that_is_not_ours_is_not_taken_for_want_of_memory(sandbox: Sandbox) -> None:
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
async def test_a_family_shares_one_memory_limit(sandbox: Sandbox) -> None:
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


@pytest.mark.fault("Sandbox", "sys.exit(0)", only="exit")
@pytest.mark.fault("Sandbox", "os._exit(0)", only="os_exit")
@pytest.mark.fault("Sandbox", "segmentation fault", only="segfault")
@each_sandbox
@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("def f(x):\n    return 1 / 0", "ZeroDivisionError: division by zero (line 2)"),
        ("def f(x:\n    return 1", "SyntaxError: '(' was never closed (line 1)"),
        ("import sys\ndef f(x):\n    sys.exit(0)", "SystemExit: 0 (line 3)"),
        ("import os\ndef f(x):\n    os._exit(0)", "ended without a result (exit code 0)"),
        ("import ctypes\ndef f(x):\n    ctypes.string_at(0)", "ended without a result (SIGSEGV)"),
        ("def g(x):\n    return 1", "the program defines no function f"),
        ("def f(x):\n    return f(x)", "RecursionError: maximum recursion depth exceeded"),
        ("class E(Exception):\n    def __str__(self): raise self\ndef f(x):\n    raise E", "E: (its message"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt (line 1)"),
        ("\ud800", "UnicodeEncodeError"),
        ("x = '\0'", "SyntaxError: source code string cannot contain null byte"),
    ],
    ids=[
        *("exception", "syntax", "exit", "os_exit", "segfault", "no_entry", "recursion", "hostile_message"),
        *("interrupt", "surrogate", "nul"),
    ],
)
async def test_a_program_that_fails_is_a_candidate_error_with_its_last_line(
    sandbox: Sandbox, program: str, detail: str
) -> None:
    ended = await launch(sandbox.tier, Work(program, "f", ["0"]), LIMITS, (), await sandbox.parent())
    verdict = judge(ended)
    assert (verdict.outcome, verdict.detail[: len(detail)]) == ("candidate_error", detail)


@pytest.mark.fault("Sandbox", "NaN, infinity and 1e999")
@each_sandbox
@pytest.mark.parametrize("value", ["float('nan')", "float('inf')", "{1, 2}", "{(1, 2): 3}", "b'bytes'", "lambda: 1"])
async def test_what_is_not_json_is_no_result(sandbox: Sandbox, value: str) -> None:
    verdict, _ = await run_program(sandbox, f"def f(x):\n    return {value}")
    assert verdict.outcome == "invalid_score"
    assert verdict.detail.startswith("f returned no JSON value")


@pytest.mark.fault("Sandbox", "forged result on stdout")
@each_sandbox
async def test_a_forged_result_on_stdout_is_ignored(sandbox: Sandbox) -> None:
    program = """
    def f(x):
        print('pace 00 result 4\\n[99]')
        return 1
    """
    assert await value_of(sandbox, program) == 1


@pytest.mark.fault("Sandbox", "forged result on every descriptor")
@each_sandbox
async def test_bytes_written_to_every_descriptor_are_suspicious(sandbox: Sandbox) -> None:
    program = """
    import contextlib, os
    def f(x):
        for descriptor in range(3, 64):
            with contextlib.suppress(OSError):
                os.write(descriptor, b"pace 00000000000000000000000000000000 result 4\\n[99]")
        return 1
    """
    verdict, _ = await run_program(sandbox, program)
    assert verdict.outcome == "suspicious"


@pytest.mark.fault("Sandbox", "a second result")
@each_sandbox
async def test_a_second_answer_with_the_right_nonce_is_suspicious(sandbox: Sandbox) -> None:
    program = """
    import os, sys
    def f(x):
        frame = sys._getframe()
        while "nonce" not in frame.f_locals:
            frame = frame.f_back
        answer = f"pace {frame.f_locals['nonce']} result 4\\n[99]".encode()
        os.write(frame.f_locals["result"], answer)
        return 1
    """
    verdict, _ = await run_program(sandbox, program)
    assert (verdict.outcome, verdict.detail) == ("suspicious", "the result pipe carried more than one answer")


@pytest.mark.fault("Sandbox", "environment")
@pytest.mark.fault("Sandbox", "environment of process 1")
@each_sandbox
async def test_the_environment_of_this_process_is_seen_nowhere(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACE_CANARY_KEY", "canary-in-a-coal-mine")
    program = """
    import glob, os
    def f(x):
        seen = [str(dict(os.environ))]
        for path in glob.glob("/proc/*/environ"):
            try:
                seen.append(open(path, errors="replace").read())
            except OSError:
                pass
        return seen
    """
    seen = "".join(await value_of(sandbox, program))
    assert "canary" not in seen
    assert max(BORN_WITH, key=len) not in seen


@pytest.mark.fault("Sandbox", "answers, scorer and this package")
@each_sandbox
async def test_the_task_and_the_package_cannot_be_read(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "evaluator.py"
    secret.write_text("answer = 42")
    program = """
    def f(paths):
        read = []
        for path in paths:
            try:
                read.append(open(path).read())
            except OSError:
                pass
        return read
    """
    package = Path(cgroup.__file__).parent.parent
    paths = [str(secret), str(package / "errors.py"), "/etc/shadow", "/etc/passwd"]
    assert await value_of(sandbox, program, argument=paths, hidden=(tmp_path, package)) == []


@each_sandbox
async def test_a_hidden_folder_inside_the_installed_packages_cannot_be_read(sandbox: Sandbox) -> None:
    hidden = Path(pytest.__file__).parent
    program = """
    import numpy
    def f(path):
        try:
            return open(path).read()
        except OSError:
            return None
    """
    assert await value_of(sandbox, program, argument=pytest.__file__, hidden=(hidden,)) is None
    assert await value_of(sandbox, program, argument=pytest.__file__) is not None


@each_sandbox
async def test_files_that_a_program_writes_are_gone_afterwards(sandbox: Sandbox, tmp_path: Path) -> None:
    program = """
    import os, tempfile
    def f(folders):
        mine = os.path.join(tempfile.gettempdir(), "left")
        open(mine, "w").write("x")
        written = [mine]
        for folder in folders:
            try:
                path = os.path.join(folder, "pace-left-behind")
                open(path, "w").write("x")
                written.append(path)
            except OSError:
                pass
        return written
    """
    folders = [str(tmp_path), "/usr/lib", "/etc", str(Path(psutil.__file__).parent), "/dev/shm"]
    written = await value_of(sandbox, program, argument=folders)
    assert written
    assert list(filter(os.path.lexists, written)) == []


@pytest.mark.fault("Sandbox", "fills its temporary folder")
@each_sandbox
async def test_the_disk_that_a_program_may_fill_is_bounded(sandbox: Sandbox) -> None:
    program = """
    import tempfile
    def f(x):
        written = 0
        with tempfile.TemporaryFile() as stream:
            try:
                while True:
                    written += stream.write(b"x" * (1 << 20))
                    stream.flush()
            except OSError:
                return written
    """
    assert await value_of(sandbox, program) <= 64 << 20


@each_sandbox
async def test_hashes_and_threads_are_pinned(sandbox: Sandbox) -> None:
    program = """
    import os
    def f(x):
        return [hash("text"), os.environ["OMP_NUM_THREADS"], os.environ["OPENBLAS_NUM_THREADS"]]
    """
    first = await value_of(sandbox, program)
    assert first == await value_of(sandbox, program)
    assert first[1:] == ["1", "1"]


@each_sandbox
async def test_a_cancelled_launch_leaves_no_process(sandbox: Sandbox) -> None:
    warm = await sandbox.parent()
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    program = Work("def f(x):\n    while True: pass", "f", ["0"])
    started: list[psutil.Process] = []
    async with anyio.create_task_group() as tg:
        tg.start_soon(launch, sandbox.tier, program, LIMITS, (), warm)
        with anyio.fail_after(30):
            while not started:
                await anyio.wait_all_tasks_blocked()
                started += [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
        tg.cancel_scope.cancel()
    if warm is not None:
        warm.spares.close()
    assert started
    assert psutil.wait_procs(started, timeout=5)[1] == []


@pytest.mark.fault("Sandbox", "the runtime killed")
@each_sandbox
async def test_a_candidate_dies_with_the_process_that_started_it(sandbox: Sandbox, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import anyio, psutil\n"
        "from pace_async.evaluate.launch import launch\n"
        "from pace_async.evaluate.work import Work\n"
        "from pace_async.evaluate.tiers import Bubblewrap, Limits, Rlimits\n"
        "from pace_async.evaluate.warm import start_warm_parent\n"
        "async def main():\n"
        f"    warm = start_warm_parent({sandbox.tier!r}, (), ['numpy']) if {sandbox.is_warm} else None\n"
        "    if warm:\n"
        "        await warm.ready()\n"
        "    before = psutil.Process().children(recursive=True)\n"
        "    async with anyio.create_task_group() as tg:\n"
        "        work = Work('def f(x):\\n    while True: pass', 'f', ['0'])\n"
        f"        tg.start_soon(launch, {sandbox.tier!r}, work, Limits(60.0, 256, 1 << 20), (), warm)\n"
        "        while psutil.Process().children(recursive=True) == before:\n"
        "            await anyio.wait_all_tasks_blocked()\n"
        "        print('started', flush=True)\n"
        "anyio.run(main)\n"
    )
    async with await anyio.open_process([sys.executable, str(script)], stderr=None) as parent:
        assert parent.stdout is not None
        with anyio.fail_after(30):
            assert (await parent.stdout.receive()).startswith(b"started")
        started = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
    assert started
    assert psutil.wait_procs(started, timeout=5)[1] == []
    hierarchy = cgroup.find()
    groups = hierarchy.folders if hierarchy else ()
    leftovers.sweep(*groups)
    assert [path for folder in (*groups, Path(gettempdir())) for path in folder.glob(f"pace-*-{parent.pid}-*")] == []


@pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed")
async def test_a_sandbox_that_cannot_start_is_the_machines_fault() -> None:
    with pytest.raises(InfrastructureFault):
        await launch(Bubblewrap("/no/such/bwrap"), Work("", "f", ["0"]), LIMITS, ())
    verdict, _ = await run_program(Sandbox(Bubblewrap("/bin/false")), "def f(x):\n    return 1")
    assert verdict.outcome == "infrastructure_error"


@each_sandbox
async def test_twenty_megabytes_of_instances_reach_the_program(sandbox: Sandbox) -> None:
    limits = Limits(seconds=60.0, memory_mb=1024, output_bytes=1 << 20)
    verdict, _ = await run_program(sandbox, "def f(x):\n    return len(x)", argument="x" * 20_000_000, limits=limits)
    assert (verdict.outcome, verdict.outputs) == ("ok", (b"20000000",))


@each_sandbox
async def test_many_launches_leave_no_descriptor_and_no_control_group(sandbox: Sandbox) -> None:
    await value_of(sandbox, "def f(x):\n    return x", argument=0)
    before = psutil.Process().num_fds()
    async with anyio.create_task_group() as tg:
        for number in range(6):
            tg.start_soon(_expect, sandbox, number)
    assert psutil.Process().num_fds() == before
    assert left_below() == []
    assert cgroup.all_removed()


async def _expect(sandbox: Sandbox, number: int) -> None:
    assert await value_of(sandbox, "def f(x):\n    return x", argument=number) == number
