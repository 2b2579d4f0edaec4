"""What a sandboxed launch costs, by tier, as milliseconds and as a multiple of a bare interpreter start.

.venv/bin/python scripts/bench_sandbox.py --launches 60 --slots 2
"""

import argparse
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Sequence

import anyio

from pace_async.evaluate.launch import launch
from pace_async.evaluate.python_files import locate
from pace_async.evaluate.tiers import Bubblewrap, Limits, NoSandbox, Rlimits, Tier
from pace_async.evaluate.verdict import judge
from pace_async.evaluate.work import Work

LIMITS = Limits(seconds=60.0, memory_mb=512, output_bytes=1 << 20)
PROGRAMS = {"empty": "def f(x): return x", "numpy": "import numpy\ndef f(x): return x"}


async def one(tier: Tier, program: str) -> float:
    """Seconds of one launch, from asking to the judged result."""
    began = time.perf_counter()
    verdict = judge(await launch(tier, Work(program, "f", ["1"]), LIMITS, ()))
    if verdict.outcome != "ok":
        raise RuntimeError(f"{tier.name}: {verdict.outcome}: {verdict.detail}")
    return time.perf_counter() - began


async def rate(tier: Tier, program: str, launches: int, slots: int) -> float:
    """Launches a second with `slots` at once."""
    limiter = anyio.CapacityLimiter(slots)

    async def limited() -> None:
        async with limiter:
            await one(tier, program)

    began = time.perf_counter()
    async with anyio.create_task_group() as tg:
        for _ in range(launches):
            tg.start_soon(limited)
    return launches / (time.perf_counter() - began)


def bare(launches: int) -> float:
    """Median seconds of an interpreter that does nothing."""
    return statistics.median(_bare() for _ in range(launches))


def _bare() -> float:
    began = time.perf_counter()
    subprocess.run([str(locate().executable), "-sSPB", "-c", "pass"], check=True)
    return time.perf_counter() - began


def row(times: Sequence[float], base: float) -> str:
    """Median and 95th percentile."""
    median, late = statistics.median(times), sorted(times)[int(0.95 * len(times))]
    return f"{median * 1e3:6.0f} ms {late * 1e3:6.0f} ms  {median / base:5.1f} x"


async def main(launches: int, slots: int) -> None:
    """Print the table."""
    base = bare(launches)
    print(f"bare interpreter {base * 1e3:.0f} ms; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'tier':<12}{'program':<9}{'median':>8}{'p95':>10}{'/ bare':>9}{f'  a second on {slots} slots':>20}")
    found = shutil.which("bwrap")
    tiers: list[Tier] = [Bubblewrap(found)] if found else []
    for tier in (*tiers, Rlimits(), NoSandbox()):
        for name, program in PROGRAMS.items():
            times = [await one(tier, program) for _ in range(launches)]
            speed = await rate(tier, program, launches, slots)
            print(f"{tier.name:<12}{name:<9}{row(times, base)}  {speed:10.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=60)
    parser.add_argument("--slots", type=int, default=2)
    arguments = parser.parse_args()
    anyio.run(main, arguments.launches, arguments.slots)
