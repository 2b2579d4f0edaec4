"""The sandbox tiers that this machine has, for tests, and a way to run one function in them."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import psutil
import pytest

from pace_async.evaluate.sandbox.converse import Job
from pace_async.evaluate.sandbox.launch import launch
from pace_async.evaluate.sandbox.python_files import PythonFiles, locate
from pace_async.evaluate.sandbox.tiers import Bubblewrap, Limits, Rlimits, Tier
from pace_async.evaluate.sandbox.verdict import JobResult, Verdict, judge
from pace_async.evaluate.sandbox.warm import WarmParent, start_warm_parent
from tests.support.ray_nodes import RUNNING

BWRAP = shutil.which("bwrap")
TIERS = [
    pytest.param(
        Bubblewrap(BWRAP or ""),
        id="bubblewrap",
        marks=pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed"),
    ),
    pytest.param(Rlimits(), id="rlimits"),
]


@dataclass(frozen=True)
class Sandbox:
    """A tier, and whether candidates are forked from a warm parent in it. All tests share one parent for the same
    hidden folders, as the candidates of a run do."""

    tier: Tier
    is_warm: bool = False

    async def parent(self, hidden: Sequence[Path] = ()) -> WarmParent | None:
        if not self.is_warm:
            return None
        key = tuple(hidden)
        async with _one_at_a_time:
            if key not in _parents:
                parent = start_warm_parent(self.tier, hidden, ["numpy"])
                assert parent is not None
                await parent.ready()
                assert not parent.broken, parent.broken
                _parents[key] = parent
        return _parents[key]


_one_at_a_time = anyio.Lock()
_parents: dict[tuple[Path, ...], WarmParent] = {}
SANDBOXES = [
    pytest.param(
        Sandbox(Bubblewrap(BWRAP or "")),
        id="bubblewrap",
        marks=pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed"),
    ),
    pytest.param(
        Sandbox(Bubblewrap(BWRAP or ""), is_warm=True),
        id="warm",
        marks=pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed"),
    ),
    pytest.param(Sandbox(Rlimits()), id="rlimits"),
]


async def close_parents() -> None:
    """End the parents that the tests have shared."""
    while _parents:
        await _parents.popitem()[1].close()


LIMITS = Limits(seconds=30.0, memory_mb=256, output_bytes=1 << 20)
SHORT = Limits(seconds=2.0, memory_mb=256, output_bytes=1 << 20)


async def run_program(
    sandbox: Sandbox,
    program: str,
    *,
    argument: object = None,
    limits: Limits = LIMITS,
    hidden: Sequence[Path] = (),
    timed: bool = False,
) -> tuple[Verdict, JobResult]:
    """Call `f(argument)` of the program in the sandbox."""
    work = Job(dedent(program), "f", [json.dumps(argument)], timed)
    ended = await launch(sandbox.tier, work, limits, hidden, await sandbox.parent(hidden))
    return judge(ended), ended


async def value_of(sandbox: Sandbox, program: str, *, argument: object = None, hidden: Sequence[Path] = ()) -> Any:
    """What `f(argument)` returns there."""
    verdict, _ = await run_program(sandbox, program, argument=argument, hidden=hidden)
    assert verdict.outcome == "ok", verdict
    return json.loads(verdict.outputs[0])


def left_alive(name: str) -> list[psutil.Process]:
    """Processes whose command name is `name` and that do not end within five seconds."""
    found = [process for process in psutil.process_iter(["name"]) if process.info["name"] == name]
    return psutil.wait_procs(found, timeout=5)[1]


def left_below() -> list[psutil.Process]:
    """Processes below this one, except shared parents and clusters of the tests, that do not end within five seconds.
    None is forked ahead now."""
    kept: set[psutil.Process] = set()
    for parent in _parents.values():
        parent.prefork.close()
    for parent in _parents.values():  # bubblewrap, its process 1, and the parent itself
        outer = psutil.Process(parent.pid)
        kept |= {outer, *outer.children(), *(below for inner in outer.children() for below in inner.children())}
    for process in psutil.Process().children():
        if process.pid in RUNNING:
            kept |= {process, *process.children(recursive=True)}
    found = [process for process in psutil.Process().children(recursive=True) if process not in kept]
    return psutil.wait_procs(found, timeout=5)[1]


def with_packages(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Python's files, as if installed packages lay in `folder`."""
    real = locate()
    parents = sorted({*real.parents, *(parent for parent in folder.parents if parent != Path("/"))})
    files: PythonFiles = replace(
        real, paths=(*real.paths, folder), imports=(*real.imports, folder), parents=tuple(parents)
    )
    monkeypatch.setattr("pace_async.evaluate.sandbox.tiers.locate", lambda: files)
