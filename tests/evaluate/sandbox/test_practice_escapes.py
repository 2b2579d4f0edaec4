"""Programs that try to carry hidden instances out through practice, where what they print is read.

A scored program leaves what it sees wherever it can, and a later program looks for it while it practises. Or a program
leaves a process behind in practice that waits for scored instances. The page cache is not closed: docs/security.md says
what can pass there.
"""

import os
import secrets
import sys
from pathlib import Path

import anyio
import pytest

from pace_async.evaluate.base import Evaluation, Evaluator
from pace_async.evaluate.sandbox.tiers import NoSandbox, Tier
from pace_async.task import FULL, PRACTICE, Task
from tests.doubles.evaluators import scored
from tests.evaluate.sandbox.tiers import TIERS, left_alive
from tests.support.evaluate_tasks import make_task
from tests.support.evaluating import evaluating

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
SECRET = f"hidden{secrets.token_hex(8)}"
NAME = f"wait{os.getpid()}"

PLACES = """
import contextlib, ctypes, fcntl, glob, mmap, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)

def places():
    mounts = []
    with contextlib.suppress(OSError):
        mounts = [line.split()[4] for line in open("/proc/self/mountinfo")]
    named = ["/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/dev/mqueue", os.getcwd(), os.path.expanduser("~"), DROP]
    return sorted({*mounts, *named, os.path.dirname(os.__file__)})
"""
LEAVES = """
def quietly(attempt):
    with contextlib.suppress(OSError, ValueError, PermissionError):
        attempt()

def in_descriptors(one, word):
    os.write(one, word.encode())
    for number in range(10, 60):
        os.set_inheritable(fcntl.fcntl(one, fcntl.F_DUPFD, number), True)

def leave(word):
    quietly(lambda: os.environ.__setitem__("LEFT", word))
    for place in places():
        quietly(lambda: open(os.path.join(place, word), "w").write(word))
        quietly(lambda: os.symlink(word, os.path.join(place, "link" + word)))
    quietly(lambda: in_descriptors(os.memfd_create(word), word))
    quietly(lambda: in_descriptors(os.open(os.path.join(os.getcwd(), "kept"), os.O_CREAT | os.O_RDWR), word))
    segment = libc.shmget(KEY, 4096, 0o1666)
    if segment >= 0:
        libc.shmat.restype = ctypes.c_void_p
        ctypes.memmove(libc.shmat(segment, None, 0), word.encode(), len(word))
    named = libc.shm_open(b"/" + word.encode(), os.O_CREAT | os.O_RDWR, 0o666)
    libc.prctl(15, word[:15].encode())
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        quietly(lambda: kept.append(socket.socket(socket.AF_UNIX, kind)))
        quietly(lambda: kept and kept[-1].bind(chr(0) + KEPT + str(kind)))
    quietly(lambda: kept and kept[0].listen())
    print(word, flush=True)
    os.write(2, word.encode() + b"\\n")
    def child():
        if os.fork() == 0:
            quietly(os.setsid)
            libc.prctl(15, word[:15].encode())
            quietly(lambda: os.execv(sys.executable, [word, "-c", "import time; time.sleep(60)", word]))
            time.sleep(60)
            os._exit(0)
    quietly(child)

kept = []
def f(instance):
    leave(instance["x"])
    return 1
"""
LOOKS = """
def read(path):
    with contextlib.suppress(OSError, ValueError):
        with open(path, "rb") as stream:
            return stream.read(1 << 16)
    return b""

def seen():
    yield repr(dict(os.environ)).encode()
    for place in places():
        with contextlib.suppress(OSError):
            yield from (name.encode("utf-8", "replace") for name in os.listdir(place))
            yield from (read(os.path.join(place, name)) for name in os.listdir(place)[:2000] if MARK in name)
    for process in glob.glob("/proc/[0-9]*"):
        yield from (read(os.path.join(process, name)) for name in ("comm", "cmdline", "environ", "maps"))
        with contextlib.suppress(OSError):
            yield from (os.readlink(path).encode() for path in glob.glob(process + "/fd/*"))
    for number in range(3, 256):
        with contextlib.suppress(OSError):
            yield os.pread(number, 4096, 0)
    for path in ("/proc/net/unix", "/proc/sysvipc/shm", "/proc/self/mountinfo", "/proc/keys"):
        yield read(path)
    segment = libc.shmget(KEY, 0, 0)
    if segment >= 0:
        libc.shmat.restype = ctypes.c_void_p
        yield ctypes.string_at(libc.shmat(segment, None, 0), 64)
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with contextlib.suppress(OSError):
            with socket.socket(socket.AF_UNIX, kind) as asked:
                asked.connect(chr(0) + KEPT + str(kind))
                yield MARK.encode()

def f(instance):
    found = [data for data in seen() if MARK.encode() in data]
    print("looked, and found", len(found), found[:3])
    return 1
"""
WAITS = """
def f(instance):
    if not isinstance(instance["x"], int):
        # The scored instance: tell it to whoever waits.
        with contextlib.suppress(OSError):
            with socket.socket(socket.AF_UNIX) as told:
                told.connect(chr(0) + KEPT)
                told.send(instance["x"].encode())
                return 2
        return 1
    waiting = None
    with contextlib.suppress(OSError):
        waiting = socket.socket(socket.AF_UNIX)
        waiting.bind(chr(0) + KEPT)
        waiting.listen()
    for _ in range(2):
        if os.fork() == 0:
            with contextlib.suppress(OSError):
                os.setsid()
            libc.prctl(15, NAME.encode())
            with contextlib.suppress(OSError, AttributeError):
                print("heard", waiting.accept()[0].recv(100), flush=True)
            time.sleep(600)
    print("waits", flush=True)
    return 1
"""


def hidden_task(folder: Path) -> Task:
    """A task whose scored instance is the secret, and whose practice instance is a number."""
    evaluator = f"""
def instances(seed):
    return [{{"x": {SECRET!r}}}]

def practice(seed):
    return [{{"x": 1}}]

def score(instances, outputs):
    return {{"score": outputs[0]}}
"""
    return make_task(folder, evaluator, deterministic=False)


def program(text: str, drop: Path) -> str:
    """With names that both sides know beforehand. Every program of a run can know these."""
    known = {"KEY": int(SECRET[-6:], 16), "KEPT": f"kept{SECRET[-12:-6]}", "NAME": NAME, "DROP": str(drop)}
    return "".join(f"{name} = {value!r}\n" for name, value in known.items()) + f"MARK = {SECRET[:10]!r}\n{PLACES}{text}"


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    """A folder of this machine in which every user may write."""
    folder = tmp_path / "drop"
    folder.mkdir()
    folder.chmod(0o777)
    for above in (tmp_path, *tmp_path.parents):
        if "pace-tests" in str(above):  # what the tests have made
            above.chmod(0o711)
    return folder


@pytest.mark.fault("Programs as weapons", "hidden instances carried out through practice")
@pytest.mark.parametrize("tier", TIERS)
async def test_nothing_that_a_scored_program_leaves_is_found_in_a_later_practice(
    tier: Tier, tmp_path: Path, drop: Path
) -> None:
    async with evaluating(hidden_task(tmp_path / "hidden"), tier) as evaluator:
        for _ in range(2):
            left = await scored(evaluator, program(LEAVES, drop))
            assert left.score == 1.0, left
            found = await scored(evaluator, program(LOOKS, drop), stage=PRACTICE)
            assert (found.outcome, found.feedback) == ("ok", "[standard output]\nlooked, and found 0 []")
            assert SECRET[:10] not in repr(left), "nor is what it printed in its own result"


async def test_the_same_programs_carry_it_out_where_nothing_confines_them(tmp_path: Path, drop: Path) -> None:
    """So the test above would notice. Practice is refused there. Here they use one folder only."""
    only_there = "def places():\n    return [DROP]\n"
    leaves = LEAVES.replace("    quietly(lambda: in_desc", "    return\n    quietly(lambda: in_desc", 1)
    async with evaluating(hidden_task(tmp_path / "hidden"), NoSandbox()) as evaluator:
        assert (await scored(evaluator, program(only_there + leaves, drop))).score == 1.0
        found = await scored(evaluator, program(only_there + LOOKS, drop), stage=PRACTICE)
    assert SECRET in found.feedback


@pytest.mark.parametrize("tier", TIERS)
async def test_a_process_that_practice_leaves_behind_is_gone_before_the_scored_instances_come(
    tier: Tier, tmp_path: Path, drop: Path
) -> None:
    async with evaluating(hidden_task(tmp_path / "hidden"), tier) as evaluator:
        waits = program(WAITS, drop)
        practised = await scored(evaluator, waits, stage=PRACTICE)
        assert "waits" in practised.feedback
        assert left_alive(NAME) == []
        assert (await scored(evaluator, waits)).score == 1.0, "nobody hears it"
        again = await scored(evaluator, f"{waits}# again", stage=PRACTICE)
    assert "heard" not in again.feedback and SECRET[:10] not in again.feedback


@pytest.mark.parametrize("tier", TIERS)
async def test_practice_that_runs_beside_a_scored_evaluation_reaches_nothing_of_it(
    tier: Tier, tmp_path: Path, drop: Path
) -> None:
    found: dict[str, Evaluation] = {}
    ready = LEAVES.replace("    return 1\n", "    time.sleep(3)\n    return 1\n")
    looks = LOOKS.replace("    found = [", "    time.sleep(1)\n    found = [")

    async def one(evaluator: Evaluator, name: str, text: str, stage: str) -> None:
        found[name] = await scored(evaluator, program(text, drop), stage=stage)

    async with evaluating(hidden_task(tmp_path / "hidden"), tier) as evaluator, anyio.create_task_group() as tasks:
        tasks.start_soon(one, evaluator, "scored", ready, FULL)
        tasks.start_soon(one, evaluator, "practice", looks, PRACTICE)
    assert found["scored"].score == 1.0
    assert found["practice"].feedback == "[standard output]\nlooked, and found 0 []"
