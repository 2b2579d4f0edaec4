"""How a candidate ends in every sandbox tier: with its launch, its parent or the machine, and nothing is left."""

import os
import sys
from pathlib import Path
from tempfile import gettempdir

import anyio
import psutil
import pytest

from pace_async.errors import InfrastructureFault
from pace_async.evaluate.assemble import groups_removed
from pace_async.evaluate.sandbox import cgroup, leftovers
from pace_async.evaluate.sandbox.converse import Job
from pace_async.evaluate.sandbox.launch import launch
from pace_async.evaluate.sandbox.tiers import Bubblewrap
from tests.evaluate.sandbox.tiers import (
    BWRAP,
    LIMITS,
    SANDBOXES,
    Sandbox,
    left_below,
    run_program,
    value_of,
)
from tests.support.descriptors import no_descriptor_left

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
each_sandbox = pytest.mark.parametrize("sandbox", SANDBOXES)


@pytest.mark.long
@each_sandbox
async def test_a_cancelled_launch_leaves_no_process(sandbox: Sandbox) -> None:
    warm = await sandbox.parent()
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    program = Job("def f(x):\n    while True: pass", "f", ["0"])
    started: list[psutil.Process] = []
    async with anyio.create_task_group() as tg:
        tg.start_soon(launch, sandbox.tier, program, LIMITS, (), warm)
        with anyio.fail_after(30):
            while not started:
                await anyio.wait_all_tasks_blocked()
                started += [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
        tg.cancel_scope.cancel()
    if warm is not None:
        warm.prefork.close()
    assert started
    assert psutil.wait_procs(started, timeout=5)[1] == []


NESTS = """
import os
def f(x):
    for _ in range(2500):
        os.mkdir("d", 0o300)
        os.chdir("d")
    return 1
"""


@pytest.mark.long
@each_sandbox
async def test_removing_thousands_of_nested_folders_does_not_end_the_run(sandbox: Sandbox) -> None:
    """A removal that recurses would end the run here, and every later one that sweeps the temporary folder."""
    assert await value_of(sandbox, NESTS) == 1
    assert [name for name in os.listdir(gettempdir()) if name.startswith(leftovers.prefix())] == []  # noqa: PTH208


@pytest.mark.long
@pytest.mark.fault("Sandbox", "the runtime killed")
@each_sandbox
async def test_a_candidate_dies_with_the_process_that_started_it(sandbox: Sandbox, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import anyio, psutil\n"
        "from pace_async.evaluate.sandbox.launch import launch\n"
        "from pace_async.evaluate.sandbox.converse import Job\n"
        "from pace_async.evaluate.sandbox.tiers import Bubblewrap, Limits, Rlimits\n"
        "from pace_async.evaluate.sandbox.warm import start_warm_parent\n"
        "async def main():\n"
        f"    warm = start_warm_parent({sandbox.tier!r}, (), ['numpy']) if {sandbox.is_warm} else None\n"
        "    if warm:\n"
        "        await warm.ready()\n"
        "    before = psutil.Process().children(recursive=True)\n"
        "    async with anyio.create_task_group() as tg:\n"
        "        work = Job('def f(x):\\n    while True: pass', 'f', ['0'])\n"
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
        await launch(Bubblewrap("/no/such/bwrap"), Job("", "f", ["0"]), LIMITS, ())
    verdict, _ = await run_program(Sandbox(Bubblewrap("/bin/false")), "def f(x):\n    return 1")
    assert verdict.outcome == "infrastructure_error"


@each_sandbox
async def test_many_launches_leave_no_descriptor_and_no_control_group(sandbox: Sandbox) -> None:
    await value_of(sandbox, "def f(x):\n    return x", argument=0)
    with no_descriptor_left():
        async with anyio.create_task_group() as tg:
            for number in range(6):
                tg.start_soon(_expect, sandbox, number)
    assert left_below() == []
    await groups_removed()
    assert cgroup.all_removed()


async def _expect(sandbox: Sandbox, number: int) -> None:
    assert await value_of(sandbox, "def f(x):\n    return x", argument=number) == number
