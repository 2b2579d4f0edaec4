"""The sandbox tiers that this machine has, for tests, and a way to run one function in them."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil
import pytest

from pace_async.evaluate.launch import Ended, launch
from pace_async.evaluate.tiers import Bubblewrap, Limits, Rlimits, Tier
from pace_async.evaluate.verdict import Verdict, judge
from pace_async.evaluate.work import Work

BWRAP = shutil.which("bwrap")
TIERS = [
    pytest.param(
        Bubblewrap(BWRAP or ""),
        id="bubblewrap",
        marks=pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed"),
    ),
    pytest.param(Rlimits(), id="rlimits"),
]
LIMITS = Limits(seconds=30.0, memory_mb=256, output_bytes=1 << 20)
SHORT = Limits(seconds=2.0, memory_mb=256, output_bytes=1 << 20)


async def run_program(
    tier: Tier,
    program: str,
    *,
    argument: object = None,
    limits: Limits = LIMITS,
    hidden: Sequence[Path] = (),
    timed: bool = False,
) -> tuple[Verdict, Ended]:
    """Call `f(argument)` of the program in the tier."""
    ended = await launch(tier, Work(dedent(program), "f", [json.dumps(argument)], timed), limits, hidden)
    return judge(ended), ended


async def value_of(tier: Tier, program: str, *, argument: object = None, hidden: Sequence[Path] = ()) -> Any:
    """What `f(argument)` returns there."""
    verdict, _ = await run_program(tier, program, argument=argument, hidden=hidden)
    assert verdict.outcome == "ok", verdict
    return json.loads(verdict.outputs[0])


def left_alive(name: str) -> list[psutil.Process]:
    """Processes whose command name is `name` and that do not end within five seconds."""
    found = [process for process in psutil.process_iter(["name"]) if process.info["name"] == name]
    return psutil.wait_procs(found, timeout=5)[1]
