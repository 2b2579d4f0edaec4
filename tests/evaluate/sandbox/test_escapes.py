"""Ways out of the sandbox, and ways to a score that was not earned: each is tried from inside, and its effect is looked
for outside."""

import os
import socket
import sqlite3
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import gettempdir

import pytest

from pace_async.config import EvaluationConfig
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation
from pace_async.evaluate.sandbox.inside import calls
from pace_async.evaluate.sandbox.tiers import Limits, Tier
from pace_async.task import Task
from tests.doubles.evaluators import scored
from tests.evaluate.sandbox.tiers import SANDBOXES, TIERS, Sandbox, run_program, value_of
from tests.support.evaluate_tasks import make_task

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
each_sandbox = pytest.mark.parametrize("sandbox", SANDBOXES)
each_tier = pytest.mark.parametrize("tier", TIERS)
REFUSED = 1  # EPERM


def there(paths: Iterable[str]) -> list[str]:
    """Those of the paths at which something lies outside of the sandbox."""
    return list(filter(os.path.lexists, paths))


def mine() -> list[Path]:
    """Temporary files and folders of this process."""
    return [*Path(gettempdir()).glob(f"pace-*-{os.getpid()}-*")]


CALLS = {
    "ptrace": (0, 0, 0, 0),  # let the parent trace me
    "unshare": (0x10000000,),  # a user namespace
    "mount": ("tmpfs", "/tmp", "tmpfs", 0, 0),
    "keyctl": (0, -3, 1),  # my session's keyring
    "io_uring_setup": (1, "x" * 256),
    "bpf": (0, "x" * 128, 128),
}


@each_sandbox
@pytest.mark.fault("Sandbox", "ptrace", only="ptrace")
@pytest.mark.fault("Sandbox", "unshare", only="unshare")
@pytest.mark.fault("Sandbox", "mount", only="mount")
@pytest.mark.fault("Sandbox", "keyctl", only="keyctl")
@pytest.mark.fault("Sandbox", "io_uring", only="io_uring_setup")
@pytest.mark.fault("Sandbox", "bpf", only="bpf")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.skipif(not calls.MACHINE, reason="the system-call filter does not know this processor")
async def test_a_system_call_used_to_leave_sandboxes_is_refused(sandbox: Sandbox, name: str) -> None:
    program = """
    import ctypes
    def f(call):
        number, arguments = call
        libc = ctypes.CDLL(None, use_errno=True)
        given = [ctypes.create_string_buffer(a.encode()) if isinstance(a, str) else ctypes.c_long(a) for a in arguments]
        return [libc.syscall(ctypes.c_long(number), *given), ctypes.get_errno()]
    """
    assert await value_of(sandbox, program, argument=[calls.number(name), CALLS[name]]) == [-1, REFUSED]


@each_sandbox
@pytest.mark.fault("Sandbox", "TCP and UDP")
@pytest.mark.fault("Sandbox", "names")
async def test_no_packet_and_no_question_for_a_name_leaves_the_sandbox(sandbox: Sandbox) -> None:
    program = """
    import socket
    def f(port):
        sent = []
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            try:
                with socket.socket(family, socket.SOCK_DGRAM) as channel:
                    channel.sendto(b"out", (address, port))
                    sent.append(address)
            except OSError:
                pass
        for name in ("localhost.", "example.com"):
            try:
                socket.getaddrinfo(name, 80)
                sent.append(name)
            except OSError:
                pass
        return sent
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        sent = await value_of(sandbox, program, argument=listening.getsockname()[1])
        with pytest.raises(BlockingIOError):
            listening.recv(3)
    assert "example.com" not in sent


@each_sandbox
@pytest.mark.fault("Sandbox", "fills shared memory")
async def test_the_shared_memory_that_a_program_may_fill_is_bounded(sandbox: Sandbox) -> None:
    program = """
    import os
    def f(x):
        written = 0
        try:
            with open("/dev/shm/full", "wb", buffering=0) as stream:
                while True:
                    written += stream.write(b"x" * (1 << 20))
        except OSError:
            return written
    """
    assert await value_of(sandbox, program) <= 16 << 20
    assert there(["/dev/shm/full"]) == []


@pytest.mark.long
@each_sandbox
@pytest.mark.fault("Sandbox", "uses up inodes")
async def test_any_number_of_files_ends_with_its_program(sandbox: Sandbox) -> None:
    program = """
    import os, tempfile
    def f(x):
        folder = tempfile.mkdtemp()
        for number in range(20_000):
            try:
                os.close(os.open(os.path.join(folder, str(number)), os.O_CREAT))
            except OSError:
                break
        return number
    """
    free = os.statvfs(gettempdir()).f_favail
    verdict, ended = await run_program(
        sandbox, program, limits=Limits(seconds=60.0, memory_mb=256, output_bytes=1 << 20)
    )
    assert verdict.outcome in ("ok", "out_of_memory", "timeout"), verdict
    assert not ended.survivors
    assert mine() == []
    assert free == 0 or os.statvfs(gettempdir()).f_favail > free - 10_000


@pytest.mark.long
@each_sandbox
@pytest.mark.fault("Sandbox", "stack overflow in C")
async def test_a_stack_that_overflows_in_c_is_the_candidates_fault(sandbox: Sandbox) -> None:
    program = """
    import sys
    def f(x):
        sys.setrecursionlimit(1 << 30)
        nested = []
        for _ in range(1_000_000):
            nested = [nested]
        return len(repr(nested))
    """
    verdict, ended = await run_program(sandbox, program)
    assert verdict.outcome == "candidate_error", verdict
    assert "SIGSEGV" in verdict.detail
    assert not ended.survivors


@each_sandbox
@pytest.mark.fault("Sandbox", "the database of the run")
async def test_the_database_of_a_run_can_be_neither_read_nor_written_nor_seen(sandbox: Sandbox, tmp_path: Path) -> None:
    program = """
    import os, sqlite3
    def f(path):
        reached = []
        for mode in ("rb", "r+b", "ab"):
            try:
                open(path, mode).close()
                reached.append(mode)
            except OSError:
                pass
        try:
            reached += sqlite3.connect(f"file:{path}?mode=ro", uri=True).execute("select * from runs").fetchall()
        except sqlite3.Error:
            pass
        return reached
    """
    database = tmp_path / "population.db"
    connection = sqlite3.connect(database)
    connection.executescript("create table runs (name); insert into runs values ('mine')")
    connection.close()
    before = database.read_bytes()
    assert await value_of(sandbox, program, argument=str(database)) == []
    assert database.read_bytes() == before


@each_sandbox
@pytest.mark.fault("Sandbox", "leaves a .pth or a sitecustomize")
async def test_nothing_that_a_later_python_would_run_can_be_left_behind(sandbox: Sandbox) -> None:
    program = """
    import os, site, sys
    def f(folders):
        left = []
        for folder in {*folders, *filter(None, sys.path), *site.getsitepackages(), os.path.expanduser("~")}:
            for name in ("pace-left.pth", "sitecustomize.py", "usercustomize.py", "numpy.py"):
                try:
                    with open(os.path.join(folder, name), "x") as stream:
                        stream.write("import os; os.environ['LEFT'] = '1'")
                    left.append(os.path.join(folder, name))
                except OSError:
                    pass
        return left
    """
    left = await value_of(sandbox, program, argument=[folder for folder in sys.path if folder])
    assert there(left) == []
    look = "import os, numpy\ndef f(x):\n    return [os.environ.get('LEFT'), hasattr(numpy, 'array')]"
    assert await value_of(sandbox, look) == [None, True]


def device_for_all(folder: Path) -> Path:
    """A device that everybody outside may open, where this process may make one."""
    made = folder / "nvidia0"
    if os.geteuid() == 0:
        os.mknod(made, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        made.chmod(0o666)
        assert made.read_bytes() == b""
    return made


@each_sandbox
@pytest.mark.fault("Sandbox", "devices, GPUs among them")
async def test_no_device_of_the_machine_can_be_opened_and_so_no_gpu(sandbox: Sandbox, tmp_path: Path) -> None:
    program = """
    import os
    def f(paths):
        opened = []
        for path in paths:
            try:
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
                opened.append(path)
            except OSError:
                pass
        return opened
    """
    gpus = [f"/dev/{name}" for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "kfd", "dri/card0", "dri/renderD128")]
    paths = [*gpus, "/dev/kvm", "/dev/fuse", "/dev/loop0", str(device_for_all(tmp_path))]
    assert await value_of(sandbox, program, argument=paths) == []
    assert await value_of(sandbox, program, argument=["/dev/null"]) == ["/dev/null"]


EXACT = """
SECRET = "the-answers-are-" + "written-here"

def instances(seed):
    return [{"x": seed * 1000 + i * 7} for i in range(4)]

def score(instances, outputs):
    return {"score": sum(output == 2 * instance["x"] + 1 for instance, output in zip(instances, outputs))}
"""
HONEST = "def f(instance):\n    return 2 * instance['x'] + 1\n"


async def scores(task: Task, tier: Tier, *programs: str, seed: int = 3) -> list[Evaluation]:
    """The evaluation of each, one after the other."""
    async with open_evaluator(task, EvaluationConfig(), tier=tier, log=task.folder.with_suffix(".log")) as evaluator:
        return [await scored(evaluator, program, seed) for program in programs]


PATCHES = """
import builtins, json, random, time
import numpy
def worth(*arguments, **named):
    return 4
for module in (builtins, json, random, time, numpy):
    for name in NAMES:
        if hasattr(module, name):
            setattr(module, name, worth)
def f(instance):
    return 4
"""
LIES = """
class Liar(KIND):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __float__(self): return 1e9
    def __int__(self): return 10**9
    def __index__(self): return 10**9
    def __radd__(self, other): return 10**9
    def __repr__(self): return "1e9"
    __str__ = __repr__
def f(instance):
    return Liar()
"""
WALK = """
import gc, sys
def f(instance):
    seen = []
    frame = sys._getframe()
    while frame is not None:
        seen += [frame.f_locals, frame.f_globals]
        frame = frame.f_back
    text = "".join(repr(thing)[:100_000] for thing in [*seen, *gc.get_objects()[:200_000]] if type(thing) is not type)
    if "".join(reversed("ereh-nettirw-era-srewsna-eht")) in text:
        return 2 * instance["x"] + 1
    for thing in gc.get_objects():  # answers that may lie about
        if type(thing) is list and thing and type(thing[0]) is dict and set(thing[0]) == {"x"} and len(thing) > 1:
            return 2 * instance["x"] + 1
    return -1
"""


@each_tier
@pytest.mark.fault("Sandbox", "rewrites the evaluator")
async def test_a_program_that_would_rewrite_the_evaluator_scores_what_it_earns(tier: Tier, tmp_path: Path) -> None:
    task = make_task(tmp_path / "exact", EXACT)
    file = task.folder / "evaluator.py"
    program = f"""
import os, pathlib
path = pathlib.Path({str(file)!r})
for attempt in (lambda: path.write_text("def instances(s): return [0]\\ndef score(i, o): return {{'score': 9}}"),
                path.unlink, lambda: path.rename(str(path) + "x"), lambda: os.symlink("/dev/null", str(path) + "y")):
    try:
        attempt()
    except OSError:
        pass
def f(instance):
    return 0
"""
    before = file.read_text()
    cheat, honest = await scores(task, tier, program, HONEST)
    assert (cheat.score, honest.score) == (0.0, 4.0)
    assert file.read_text() == before
    assert {path.name for path in task.folder.glob("*.*")} == {"task.yaml", "evaluator.py", "initial.py"}


@each_tier
@pytest.mark.fault("Sandbox", "patches random, numpy, json and builtins")
@pytest.mark.parametrize(
    "names",
    [
        ("random", "seed", "default_rng", "choice", "shuffle"),
        ("array", "sum", "asarray", "float64", "allclose", "array_equal"),
        ("dumps", "loads", "JSONEncoder", "JSONDecoder"),
        ("isinstance", "sum", "len", "float", "zip", "all", "abs", "max", "min"),
    ],
    ids=["random", "numpy", "json", "builtins"],
)
async def test_modules_patched_inside_change_no_score_outside(
    tier: Tier, tmp_path: Path, names: tuple[str, ...]
) -> None:
    cheat, honest = await scores(
        make_task(tmp_path / "exact", EXACT), tier, PATCHES.replace("NAMES", repr(names)), HONEST
    )
    assert cheat.score in (None, 0.0), cheat
    assert cheat.outcome != "infrastructure_error"
    assert honest.score == 4.0


@each_tier
@pytest.mark.fault("Sandbox", "objects that lie about what they equal")
@pytest.mark.parametrize("kind", ["object", "float", "int", "str", "list", "dict"])
async def test_an_output_is_a_plain_value_without_forged_behaviour(tier: Tier, tmp_path: Path, kind: str) -> None:
    [cheat] = await scores(make_task(tmp_path / "exact", EXACT), tier, LIES.replace("KIND", kind))
    assert cheat.score in (None, 0.0), cheat
    assert cheat.outcome in ("ok", "invalid_score", "candidate_error")


@pytest.mark.long
@each_tier
@pytest.mark.fault("Sandbox", "walks the garbage collector and frames")
async def test_neither_answers_nor_later_instances_are_in_the_memory_of_a_program(tier: Tier, tmp_path: Path) -> None:
    walked, honest = await scores(make_task(tmp_path / "exact", EXACT, timeout_s=60.0), tier, WALK, HONEST)
    assert (walked.outcome, walked.score) == ("ok", 0.0), walked
    assert honest.score == 4.0


@each_tier
@pytest.mark.fault("Sandbox", "answers remembered by input")
async def test_answers_remembered_by_input_are_worth_nothing_on_a_fresh_seed(tier: Tier, tmp_path: Path) -> None:
    task = make_task(tmp_path / "exact", EXACT)
    known = {3000 + 7 * i: 2 * (3000 + 7 * i) + 1 for i in range(4)}
    program = f"known = {known}\ndef f(instance):\n    return known.get(instance['x'], 0)\n"
    [there] = await scores(task, tier, program)
    [fresh] = await scores(task, tier, program, seed=4)
    assert (there.score, fresh.score) == (4.0, 0.0)
