"""After 500 evaluations of all kinds: no process, no control group, no folder and no descriptor is left."""

import os
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir

import anyio
import psutil
import pytest

from pace_async.config import EvaluationConfig
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.sandbox import cgroup, leftovers
from pace_async.evaluate.sandbox.python_files import locate, reached_by_others
from pace_async.evaluate.sandbox.tiers import Bubblewrap, Rlimits, Tier
from tests.doubles.evaluators import scored
from tests.evaluate.sandbox.tiers import BWRAP, left_alive
from tests.support.descriptors import no_descriptor_left
from tests.support.evaluate_tasks import make_task

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
NAME = f"left{os.getpid()}"
HANGING = "import time\ndef f(instance):\n    time.sleep(600)\n"
KINDS = {
    "good": ("ok", "def f(instance):\n    return 1\n"),
    "failing": ("candidate_error", "def f(instance):\n    return 1 / 0\n"),
    "gone": ("candidate_error", "import os\ndef f(instance):\n    os._exit(0)\n"),
    "detached": (
        "ok",
        f"""
import contextlib, ctypes, os, time
def f(instance):
    if os.fork() == 0:
        with contextlib.suppress(OSError):
            os.setsid()
        ctypes.CDLL(None).prctl(15, {NAME.encode()})
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()
    return 1
""",
    ),
    "filling": (
        "ok",
        f"""
import os, tempfile
def f(instance):
    folder = tempfile.mkdtemp(prefix={NAME!r})
    try:
        for number in range(100):
            with open(os.path.join(folder, str(number)), "wb") as stream:
                stream.write(bytes(1 << 20))
    except OSError:
        pass
    return 1
""",
    ),
    "hanging": ("timeout", HANGING),
}
ROUND = ("good", "good", "detached", "good", "failing", "good", "gone", "good")
EVERY_50 = ("filling", "hanging")


def kinds(count: int) -> list[str]:
    """So many, each kind among them, evenly mixed."""
    return [EVERY_50[number % 50] if number % 50 < len(EVERY_50) else ROUND[number % 8] for number in range(count)]


@contextmanager
def nothing_left() -> Generator[None]:
    """Fails unless all that is made within is gone at the end."""
    hierarchy = cgroup.find()
    places = {Path(gettempdir()), Path("/dev/shm"), *(hierarchy.folders if hierarchy else ())}
    process = psutil.Process()
    reached_by_others(locate())  # what it opens stays open for the life of this process, by design
    children = set(process.children(recursive=True))
    with no_descriptor_left():
        yield
        _, alive = psutil.wait_procs(set(process.children(recursive=True)) - children, timeout=5)
        assert (alive, left_alive(NAME)) == ([], [])
    patterns = (f"{leftovers.prefix()}*", f"{NAME}*")
    assert [path for place in places for pattern in patterns for path in place.glob(pattern)] == []


@pytest.mark.fault("Sandbox", "nothing left of 500 evaluations")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("tier", "count"),
    [
        pytest.param(
            Bubblewrap(BWRAP or ""),
            500,
            id="bubblewrap",
            marks=[pytest.mark.long, pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed")],
        ),
        pytest.param(Rlimits(), 50, id="rlimits", marks=pytest.mark.long),  # each a cold start
    ],
)
async def test_evaluations_of_every_kind_leave_nothing_behind(tier: Tier, count: int, tmp_path: Path) -> None:
    task, impatient = make_task(tmp_path / "sum"), make_task(tmp_path / "short", timeout_s=1.0)
    found: Counter[tuple[str, str]] = Counter()
    settings = EvaluationConfig(slots=4)
    with nothing_left():
        async with (
            open_evaluator(task, settings, tier=tier, log=tmp_path / "log") as usual,
            open_evaluator(impatient, settings, tier=tier, log=tmp_path / "short log") as short,
            anyio.create_task_group() as tg,
        ):

            async def one(number: int, kind: str) -> None:
                expected, program = KINDS[kind]
                ended = await scored(short if expected == "timeout" else usual, f"{program}# {number}\n", number)
                found[kind, ended.outcome] += 1

            for number, kind in enumerate(kinds(count)):
                tg.start_soon(one, number, kind)
    assert found == Counter((kind, KINDS[kind][0]) for kind in kinds(count))
