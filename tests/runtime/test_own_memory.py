"""The runtime has a memory limit of its own where a control group can be made, and its children do not share it."""

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from pace_async import children
from pace_async.evaluate.sandbox import cgroup, leftovers
from pace_async.runtime.start.own_memory import own_memory
from tests.support.control_groups import settle

needs_groups = pytest.mark.skipif(cgroup.find() is None, reason="needs control groups that this user may make")
GROWING = """
import subprocess, sys
from pace_async.evaluate.sandbox import cgroup
from pace_async.runtime.start.own_memory import own_memory
with own_memory(256) as group:
    print(group is not None, flush=True)
    held = bytearray(1 << 30)
print("grown")
"""


def place_of(pid: int | str) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


@pytest.mark.long
@needs_groups
@pytest.mark.fault("Sick, not dead", "a runtime that grows")
def test_a_runtime_that_grows_ends_itself() -> None:
    ended = subprocess.run([sys.executable, "-c", GROWING], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (-9, "True\n"), ended.stderr
    hierarchy = cgroup.find()
    assert hierarchy is not None
    leftovers.sweep(*hierarchy.folders)


@needs_groups
async def test_children_are_outside_the_runtimes_limit(tmp_path: Path) -> None:
    before = place_of("self")
    with own_memory(None) as group:
        assert group is not None
        assert place_of("self") != before
        file = "memory.limit_in_bytes" if group.version == 1 else "memory.max"
        limit = await anyio.Path(group.memory / file).read_text()
        assert int(limit) >> 20 == max(2048, cgroup.memory_mb() // 2)
        async with children.child(["cat"], log=tmp_path / "log", environment={"PATH": "/bin:/usr/bin"}) as process:
            assert place_of(process.pid) == before
    assert place_of("self") == before
    assert children.entered == []
    settle()
    assert not group.memory.exists()


def test_without_control_groups_there_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "find", lambda: None)
    before = place_of("self")
    with own_memory(256) as group:
        assert group is None
        assert place_of("self") == before
        assert children.entered == []


@needs_groups
def test_if_children_cannot_leave_the_group_there_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    home, before = cgroup.home(), place_of("self")
    enter = cgroup.enter
    refused: list[Path] = []

    def not_back(folder: Path) -> bool:
        if folder == home and not refused:
            refused.append(folder)
            return False
        return enter(folder)

    monkeypatch.setattr(cgroup, "enter", not_back)
    made = list[cgroup.Group]()
    only = cgroup.memory_only

    def kept(megabytes: int) -> cgroup.Group:
        group = only(megabytes)
        assert group is not None
        made.append(group)
        return group

    monkeypatch.setattr(cgroup, "memory_only", kept)
    with own_memory(256) as group:
        assert group is None
        file = "memory.limit_in_bytes" if made[0].version == 1 else "memory.max"
        limit = (made[0].memory / file).read_text().strip()
        assert limit == "max" or int(limit) >> 20 > 1 << 20
    assert place_of("self") == before
