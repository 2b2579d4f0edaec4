"""Candidates of one warm parent: none finds anything of another, none reaches the parent, and none is charged for the
parent's end."""

import json
import os
import signal
import sys
from pathlib import Path

import anyio
import psutil
import pytest

from pace_async.config import EvaluationConfig
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.sandbox.converse import Job
from pace_async.evaluate.sandbox.launch import CandidateRunner, launch
from pace_async.evaluate.sandbox.python_files import locate
from pace_async.evaluate.sandbox.selfcheck import check_tier
from pace_async.evaluate.sandbox.tiers import Bubblewrap, NoSandbox, Rlimits
from pace_async.evaluate.sandbox.verdict import judge
from pace_async.evaluate.sandbox.warm import DRIVERS_AHEAD, WarmParent, imports_of, start_warm_parent
from tests.doubles.evaluators import scored
from tests.evaluate.sandbox.tiers import BWRAP, LIMITS, Sandbox, run_program, value_of, with_packages
from tests.support.evaluate_tasks import DOUBLE, make_task

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux" or BWRAP is None, reason="a warm parent needs bubblewrap"),
]
TIER = Bubblewrap(BWRAP or "")
COLD, WARM = Sandbox(TIER), Sandbox(TIER, is_warm=True)


MARK = """
import contextlib, os, socket

def f(name):
    places = sorted({line.split()[4] for line in open("/proc/self/mountinfo")} | {"/tmp", "/dev/shm"})
    found = [os.path.join(place, name) for place in places if os.path.lexists(os.path.join(place, name))]
    left = []
    for place in places:
        with contextlib.suppress(OSError):
            os.chmod(place, 0o777)
        with contextlib.suppress(OSError):
            open(os.path.join(place, name), "w").close()
            left.append(place)
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as channel:
        channel.connect("\\0" + name)
        found.append("socket")
    kept = socket.socket(socket.AF_UNIX)
    kept.bind("\\0" + name)
    kept.listen()
    if os.fork() == 0:
        os.setsid()
        import time
        time.sleep(60)
    return {"found": found, "left": left}
"""


async def test_the_next_candidate_finds_no_file_socket_or_process_of_the_one_before() -> None:
    name = f"mark{os.getpid()}"
    first = await value_of(WARM, MARK, argument=name)
    assert {"/tmp", "/dev/shm"} <= set(first["left"])
    assert (await value_of(WARM, MARK, argument=name))["found"] == []


@pytest.mark.fault("Sandbox", "signals or sees its neighbours")
async def test_candidates_that_run_at_once_see_nothing_of_each_other() -> None:
    program = """
    import contextlib, os, socket, sys
    def f(name):
        me = socket.socket(socket.AF_UNIX)
        me.bind("\\0" + name)
        open("/tmp/" + name, "x").close()
        open("/dev/shm/" + name, "x").close()
        master, slave = os.openpty()
        print("x" * 5000, flush=True)  # more than is kept: said when all of the above is there
        processes = sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit())
        return {"processes": processes, "terminals": sorted(os.listdir("/dev/pts"))}
    """
    name = f"both{os.getpid()}"
    found: list[object] = []

    async def one() -> None:
        found.append(await value_of(WARM, program, argument=name))

    async with anyio.create_task_group() as tg:
        for _ in range(4):
            tg.start_soon(one)
    assert found == [{"processes": [1], "terminals": ["0", "ptmx"]}] * 4


OPEN = """
import json
import os
def f(x):
    return {number: os.readlink(f"/proc/self/fd/{number}").split(":")[0] for number in os.listdir("/proc/self/fd")
            if os.path.lexists(f"/proc/self/fd/{number}")}
"""


async def test_a_forked_candidate_has_the_same_descriptors_as_a_cold_one() -> None:
    warm, cold = [await value_of(sandbox, OPEN) for sandbox in (WARM, COLD)]
    assert sorted(warm.values()) == sorted(cold.values())


async def test_a_forked_candidate_is_as_confined_as_a_cold_one() -> None:
    program = """
    import os, resource
    def f(x):
        kept = ("CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp", "Threads", "Groups")
        lines = (line.split(":", 1) for line in open("/proc/self/status"))
        status = {name: value.strip() for name, value in lines if name in kept}
        limits = {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name[:7] == "RLIMIT_"}
        own = os.getsid(0) == os.getpgrp() == 1
        mounts = sorted({(line.split()[4], "ro" in line.split()[5].split(",")) for line in open("/proc/self/mountinfo")
                         if line.split()[4] not in ("/tmp", "/dev/shm", "/dev/pts", "/proc", "/proc/1")})
        return [status, limits, own, os.getcwd(), dict(os.environ), mounts, os.umask(0), os.getpriority(0, 0)]
    """
    warm, cold = [await value_of(sandbox, program) for sandbox in (WARM, COLD)]
    assert warm == cold


@pytest.mark.fault("Sandbox", "signals its parent")
async def test_no_data_of_a_candidate_reaches_its_parent() -> None:
    program = """
    import contextlib, ctypes, os, signal
    def f(x):
        reached = []
        for pid in range(2, 400):  # it is 1 itself
            for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
                    reached.append(pid)
            with contextlib.suppress(OSError):
                open(f"/proc/{pid}/mem", "r+b").close()
                reached.append(pid)
            if ctypes.CDLL(None).ptrace(16, pid, 0, 0) == 0:
                reached.append(pid)
        return reached
    """
    warm = await WARM.parent()
    assert warm is not None
    assert await value_of(WARM, program) == []
    assert await value_of(WARM, "def f(x):\n    return x", argument=1) == 1
    assert not warm.broken


async def test_a_candidates_changes_to_a_module_end_with_it() -> None:
    program = """
    import builtins, json, numpy
    def f(x):
        before = [numpy.sum.__name__, hasattr(json, "mine"), hasattr(builtins, "mine")]
        numpy.sum = lambda *_: 0
        json.mine = builtins.mine = True
        return before
    """
    assert [await value_of(WARM, program) for _ in range(2)] == [["sum", False, False]] * 2


async def test_unseeded_random_numbers_differ_between_candidates() -> None:
    parent = start_warm_parent(TIER, (), ["numpy.random"])
    assert parent is not None
    await parent.ready()
    runner = CandidateRunner(TIER, ())
    try:
        runner._warm = parent  # pyright: ignore[reportPrivateUsage]
        program = "import numpy, random\ndef f(x):\n    return [random.random(), numpy.random.random()]\n"
        drawn = [judge(await runner.run(Job(program, "f", ["0"]), LIMITS)).outputs for _ in range(2)]
    finally:
        await runner.close()
    assert drawn[0] != drawn[1]
    assert len({number for outputs in drawn for number in outputs[0].strip(b"[]").split(b",")}) == 4


async def test_forked_candidates_pass_the_self_check() -> None:
    check = await check_tier(TIER, await WARM.parent())
    assert (check.proven, check.gaps, check.broken) == (True, (), "")


async def alone(parent: WarmParent) -> psutil.Process:
    """The process that forks, once it has nothing left that it forked, and waits for the next request."""
    parent.prefork.close()
    with anyio.fail_after(10):
        while (
            len(chain := psutil.Process(parent.pid).children(recursive=True)) > 2
            or chain[-1].status() != psutil.STATUS_SLEEPING
        ):
            await anyio.wait_all_tasks_blocked()
    return chain[-1]


async def test_many_candidates_leave_nothing_in_their_parent() -> None:
    warm = await WARM.parent()
    assert warm is not None
    await value_of(WARM, "def f(x):\n    return x")
    trusted = await alone(warm)
    before = trusted.num_fds(), trusted.num_threads()
    for _ in range(8):
        await run_program(WARM, "import os\ndef f(x):\n    os.fork() or os._exit(3)\n    return x")
    assert await alone(warm) == trusted
    assert (trusted.num_fds(), trusted.num_threads()) == before


async def test_when_the_parent_dies_its_candidate_starts_cold_and_one_warning_is_logged(tmp_path: Path) -> None:
    said: list[str] = []

    async def say(kind: str, text: str) -> None:
        said.append(text)

    task = make_task(tmp_path / "sum")
    before = psutil.Process().children()
    async with open_evaluator(task, EvaluationConfig(), tier=TIER, log=tmp_path / "log", say=say) as evaluator:
        assert evaluator.is_warm
        (killed,) = [child for child in psutil.Process().children() if child not in before and child.name() == "bwrap"]
        async with anyio.create_task_group() as tg:

            async def kill_once_it_runs() -> None:
                with anyio.fail_after(30):
                    while len(killed.children(recursive=True)) < 2 + DRIVERS_AHEAD + 1:
                        await anyio.wait_all_tasks_blocked()
                killed.children(recursive=True)[1].send_signal(signal.SIGKILL)

            tg.start_soon(kill_once_it_runs)
            slow = "import time\ndef f(instance):\n    time.sleep(1.0)\n    return 1\n"
            found = await scored(evaluator, slow, 0)
            assert (found.outcome, found.score) == ("ok", 3)
        again = await scored(evaluator, DOUBLE, 0)
        assert not evaluator.is_warm
    assert again.outcome == "ok"
    assert said == ["candidates are started cold from here on: it died"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError('no such data')", "cannot import hazard: ValueError: no such data"),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "a thread"),
        ("import mmap\nkept = mmap.mmap(-1, 4096)", "mapped memory that forks would share"),
    ],
    ids=["raises", "thread", "shared_memory"],
)
async def test_a_parent_that_must_not_be_forked_is_not_used(
    body: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "hazard.py").write_text(body)
    with_packages(monkeypatch, folder)
    parent = start_warm_parent(TIER, (), ["hazard"])
    assert parent is not None
    try:
        await parent.ready()
        assert reason in parent.broken
    finally:
        await parent.close()


async def test_packages_below_tmp_are_read_only_in_a_fork_and_hidden_files_stay_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    (folder / "secret").mkdir(parents=True)
    (folder / "secret" / "labels.txt").write_text("1")
    (folder / "only_here.py").write_text("answer = 42\n")
    with_packages(monkeypatch, folder)
    program = f"""
import json
import os
def tried(act):
    try:
        return act()
    except OSError:
        return None
def f(x):
    import only_here
    new = tried(lambda: open({str(folder / "new")!r}, "w").write("x"))
    seen = tried(lambda: os.listdir({str(folder / "secret")!r}))
    return [only_here.answer, new, seen, sorted(os.listdir("/tmp"))]
"""
    parent = start_warm_parent(TIER, [folder / "secret"], [])
    assert parent is not None
    try:
        await parent.ready()
        ended = await launch(TIER, Job(program, "f", ["0"]), LIMITS, [folder / "secret"], parent)
    finally:
        await parent.close()
    verdict = judge(ended)
    assert verdict.outcome == "ok", verdict
    answer, new, seen, scratch = json.loads(verdict.outputs[0])
    assert (answer, new, seen) == (42, None, None)
    on_the_way = {path.parts[2] for path in (folder, *locate().paths) if path.is_relative_to("/tmp")}
    assert set(scratch) == on_the_way, "nothing else of /tmp"


async def test_a_sandbox_without_namespaces_offers_no_warm_parent() -> None:
    for tier in (Rlimits(), NoSandbox(), Bubblewrap(BWRAP or "", proc=False)):
        assert start_warm_parent(tier, (), []) is None


async def test_cold_is_a_setting(tmp_path: Path) -> None:
    async with open_evaluator(
        make_task(tmp_path / "sum"), EvaluationConfig(warm=False), tier=TIER, log=tmp_path / "log"
    ) as evaluator:
        assert not evaluator.is_warm
        assert (await scored(evaluator, DOUBLE, 0)).outcome == "ok"


def test_the_parent_imports_the_top_level_imports_of_the_seed_program() -> None:
    program = "import numpy as np, os.path\nfrom scipy.spatial import cKDTree\ndef f():\n    import json\n"
    assert imports_of(program) == ("numpy", "os.path", "scipy.spatial")
