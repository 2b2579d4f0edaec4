"""What a user without privileges gets: one program, run in a tier by a process that is not root.

Where the tests run as root, that process is put into a user namespace in which root's own id is an ordinary one: it
keeps root's files and processes (so Python can lie in root's home), and loses every privilege. Outside, such a
candidate has the same user as the processes and files that it tries to reach.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio

from pace_async.evaluate.sandbox.converse import Job
from pace_async.evaluate.sandbox.launch import launch
from pace_async.evaluate.sandbox.selfcheck import check_tier
from pace_async.evaluate.sandbox.tiers import Bubblewrap, Limits, Plan, Rlimits, Tier
from pace_async.evaluate.sandbox.verdict import judge

ROOT = Path(__file__).parents[3]
LIMITS = Limits(seconds=60.0, memory_mb=256, output_bytes=1 << 20)
LOST_PRIVILEGES = ("unshare", "--user", "--map-user=1000", "--map-group=1000")


@dataclass(frozen=True, slots=True)
class FilterAlone(Rlimits):
    """The rlimits tier on a kernel without Landlock: what is refused here, the system-call filter refuses."""

    def plan(self, limits: Limits, hidden: Sequence[Path], scratch: Path | None) -> Plan:
        plan = Rlimits.plan(self, limits, hidden, scratch)
        kept = {name: value for name, value in plan.confinement.items() if name != "landlock"}
        return replace(plan, confinement=kept)


TIERS: dict[str, Tier] = {
    "bubblewrap": Bubblewrap(shutil.which("bwrap") or ""),
    "rlimits": Rlimits(),
    "filter_alone": FilterAlone(),
}


def why_not() -> str:
    """Why no process without privileges can be started here, empty if one can."""
    if os.getuid() != 0:
        return ""
    tried = subprocess.run([*LOST_PRIVILEGES, "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "no user namespace can be made"


def as_plain_user(tier: str, program: str, argument: object = None, *, timed: bool = False) -> Any:
    """What `f(argument)` returns in this tier, launched cold by a process without privileges."""
    return _asked({"tier": tier, "program": dedent(program), "argument": argument, "timed": timed})


def checked_as_plain_user(tier: str) -> Any:
    """What the self-check of this tier finds there: [proven, gaps, broken]."""
    return _asked({"tier": tier, "program": None})


def _asked(asked: dict[str, Any]) -> Any:
    command = [sys.executable, "-m", __name__, json.dumps(asked)]
    if os.getuid() == 0:
        command = [*LOST_PRIVILEGES, *command]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def _answer(asked: dict[str, Any]) -> Any:
    tier = TIERS[asked["tier"]]
    if asked["program"] is None:
        check = await check_tier(tier)
        return [check.proven, check.gaps, check.broken]
    work = Job(asked["program"], "f", [json.dumps(asked["argument"])], timed=asked["timed"])
    verdict = judge(await launch(tier, work, LIMITS, ()))
    assert verdict.outcome == "ok", verdict
    return json.loads(verdict.outputs[0])


if __name__ == "__main__":
    assert os.getuid() != 0
    print(json.dumps(anyio.run(_answer, json.loads(sys.argv[1]))))
