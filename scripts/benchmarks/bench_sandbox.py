"""Measures a sandboxed launch, by tier, cold and forked from a warm parent, beside a plain subprocess.

.venv/bin/python scripts/benchmarks/bench_sandbox.py --launches 60 --slots 2

Every round makes one launch of each row in turn, so that other work on the machine affects all of them equally. "First
line" is the time from the request for the launch to the program's first line after its imports, and "judged" is the
time to the verdict. Both are also given as a multiple of a plain subprocess with the same imports, in the same rounds.
"A second" is with all slots busy. "CPU" is the processor time of all processes for one launch. A busy machine changes
it least. It needs a control group of version 2.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import anyio

from pace_async.evaluate.sandbox.converse import Job
from pace_async.evaluate.sandbox.launch import launch
from pace_async.evaluate.sandbox.python_files import locate
from pace_async.evaluate.sandbox.tiers import VARIABLES, Bubblewrap, Limits, NoSandbox, Rlimits, Tier
from pace_async.evaluate.sandbox.verdict import judge
from pace_async.evaluate.sandbox.warm import WarmParent, start_warm_parent

LIMITS = Limits(seconds=60.0, memory_mb=512, output_bytes=1 << 20)
IMPORTS = {"empty": "import time", "numpy": "import time, numpy"}
FIRST_LINE = "\nfirst_line = time.monotonic()\n"  # the kernel's clock, which is the same inside


@dataclass
class Row:
    """One way to start one program. `tier` None is a plain subprocess. The lists are seconds, one for each launch."""

    name: str
    imports: str
    tier: Tier | None
    warm: WarmParent | None = None
    first_line: list[float] = field(default_factory=list[float])
    judged: list[float] = field(default_factory=list[float])
    rate: float = 0.0
    cpu: float | None = None

    async def once(self) -> tuple[float, float]:
        """Seconds to the first line, and to the verdict."""
        program = IMPORTS[self.imports] + FIRST_LINE
        began = time.monotonic()
        if self.tier is None:
            first_line = await _plain(program + "print(first_line)")
        else:
            work = Job(program + "def f(x): return first_line", "f", ["1"])
            verdict = judge(await launch(self.tier, work, LIMITS, (), self.warm))
            if verdict.outcome != "ok":
                raise RuntimeError(f"{self.name}: {verdict.outcome}: {verdict.detail}")
            first_line = float(json.loads(verdict.outputs[0]))
        return first_line - began, time.monotonic() - began

    async def measure_rate(self, launches: int, slots: int, meter: "Meter") -> None:
        """Measure the launches a second with `slots` at once, and their processor time."""
        limiter = anyio.CapacityLimiter(slots)

        async def limited() -> None:
            async with limiter:
                await self.once()

        began, used = time.monotonic(), meter.read()
        async with anyio.create_task_group() as tg:
            for _ in range(launches):
                tg.start_soon(limited)
        self.rate = launches / (time.monotonic() - began)
        if used is not None:
            self.cpu = ((meter.read() or used) - used) / launches


class Meter:
    """Processor seconds of this process and of the processes that it starts while the meter is open."""

    def __init__(self) -> None:
        self._group: Path | None = None

    def __enter__(self) -> Self:
        mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
        top = next((Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"), None)
        if top is not None:
            with contextlib.suppress(OSError):
                group = top / f"bench-{os.getpid()}"
                group.mkdir()
                self._group = group
                (group / "cgroup.procs").write_text("0")
        return self

    def __exit__(self, *_: object) -> None:
        if self._group is None:
            return
        (self._group.parent / "cgroup.procs").write_text("0")
        for _attempt in range(100):  # the last processes may not have ended yet
            with contextlib.suppress(OSError):
                self._group.rmdir()
                return
            time.sleep(0.01)

    def read(self) -> float | None:
        """The seconds, or None if they cannot be measured."""
        if self._group is None:
            return None
        fields = dict(line.split() for line in (self._group / "cpu.stat").read_text().splitlines())
        return int(fields["usage_usec"]) / 1e6


async def _plain(program: str) -> float:
    packages = f"import sys; sys.path += {[str(path) for path in locate().imports]}\n"
    finished = await anyio.run_process(
        [str(locate().executable), "-sSPB", "-c", packages + program], env=VARIABLES, start_new_session=True
    )
    return float(finished.stdout)


async def _rows(stack: AsyncExitStack) -> list[Row]:
    found = shutil.which("bwrap")
    wrapped = Bubblewrap(found) if found else None
    rows: list[Row] = []
    for imports, line in IMPORTS.items():
        rows.append(Row("plain subprocess", imports, None))
        if wrapped is not None:
            parent = start_warm_parent(wrapped, (), line.removeprefix("import ").split(", "))
            assert parent is not None
            stack.push_async_callback(parent.close)
            await parent.ready()
            if parent.broken:
                raise RuntimeError(parent.broken)
            rows += [Row("bubblewrap, warm", imports, wrapped, parent), Row("bubblewrap", imports, wrapped)]
        rows += [Row("rlimits", imports, Rlimits()), Row("none", imports, NoSandbox())]
    return rows


def table(rows: Sequence[Row], slots: int) -> list[str]:
    """Medians and 95th percentiles in milliseconds, and multiples of the plain subprocess's median."""
    lines = [
        f"{'':<25}{'first line':>17}{'judged':>20}{'a second,':>21}{'CPU':>7}",
        f"{'':<25}{'median   p95':>14}{'x':>6}{'median   p95':>14}{'x':>6}{f'{slots} slots':>12}{'x':>6}{'ms':>7}",
    ]
    for row in rows:
        plain = next(other for other in rows if other.tier is None and other.imports == row.imports)
        parts = [f"{row.name:<18}{row.imports:<7}"]
        for mine, base in ((row.first_line, plain.first_line), (row.judged, plain.judged)):
            median, late = statistics.median(mine), sorted(mine)[int(0.95 * len(mine))]
            parts.append(f"{median * 1e3:8.1f}{late * 1e3:6.0f}{median / statistics.median(base):6.2f}")
        cpu = "-" if row.cpu is None else f"{row.cpu * 1e3:.1f}"
        parts.append(f"{row.rate:12.1f}{row.rate / plain.rate:6.2f}{cpu:>7}")
        lines.append("".join(parts))
    return lines


async def main(launches: int, slots: int) -> None:
    """Print the table."""
    with Meter() as meter:
        async with AsyncExitStack() as stack:
            await _measure(await _rows(stack), launches, slots, meter)


async def _measure(rows: Sequence[Row], launches: int, slots: int, meter: Meter) -> None:
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {launches} launches of each")
    for _ in range(launches):
        for row in rows:
            first_line, judged = await row.once()
            row.first_line.append(first_line)
            row.judged.append(judged)
    for row in rows:
        await row.measure_rate(launches, slots, meter)
    print("\n".join(table(rows, slots)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=60)
    parser.add_argument("--slots", type=int, default=2)
    arguments = parser.parse_args()
    anyio.run(main, arguments.launches, arguments.slots)
