"""Measures what `pace web` with ten open windows costs a run beside it: the run of `bench_overhead`, in turns.

    python -m scripts.benchmarks.bench_watched  # 1,024 candidates, 128 threads, three seeds, ten windows

Each seed is run alone and watched, the order changes with the seed. A window is a client that holds a live stream and
asks for its page again after each commit (`windows`): no browser, which would need processors of its own. Server and
windows run on the same processors as the run. The ratio is that of the wall clocks. The exit code is 1 if its mean is
above the limit.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

import anyio
import psutil

from pace_async.config import Config
from pace_async.simulate.durations import Durations
from scripts.benchmarks.bench_overhead import Found, config_of, measure
from scripts.benchmarks.bench_overhead import serving as implementer
from tests.support.browsers import serving


@contextmanager
def watched(folder: Path, windows: int) -> Generator[None]:
    """`pace web` of the run in a folder, with its windows."""
    command = [sys.executable, "-m", "scripts.benchmarks.windows"]
    with (
        serving(folder) as (address, server),
        subprocess.Popen([*command, address, str(windows)], stdin=-1, stdout=-1, text=True) as clients,
    ):
        yield
        spent = psutil.Process(server.pid).cpu_times()
        told, _ = clients.communicate(timeout=120)
        answers, size = map(int, told.split())
        took = f"the server took {spent.user + spent.system:.1f} s of processor time"
        print(f"  {windows} windows got {answers:,} answers of {size / 1e6:.1f} MB, {took}", flush=True)
        if answers < windows:
            raise SystemExit("the windows did not follow the run")


def main() -> int:
    """Print a line for each run. Returns 1 if the mean ratio is above the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--candidates", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=128)
    parser.add_argument("--windows", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--mean", type=float, default=1.0, help="mean seconds of an evaluation")
    parser.add_argument("--limit", type=float, default=1.02, help="wall clock watched over alone, mean of the seeds")
    chosen = parser.parse_args()
    os.environ["HOSTED_VLLM_API_KEY"] = "any key will do"
    ratios: list[float] = []
    with implementer() as url:
        for seed in range(chosen.seeds):
            found: dict[bool, Found] = {}
            for beside in (False, True) if seed % 2 == 0 else (True, False):
                durations = Durations(seed, chosen.mean, 0.6, None, 0.0, 0.0, 0.0)
                windows = chosen.windows if beside else 0
                found[beside] = anyio.run(run, config_of(chosen, url, seed), durations, windows)
                each = found[beside]
                print(
                    f"seed {seed}, {'watched' if beside else 'alone'}: {each.seconds:.2f} s, list schedule "
                    f"{each.scheduled:.2f} s, {each.each_ms:.1f} ms of processor time a candidate, load "
                    f"{os.getloadavg()[0]:.1f}",
                    flush=True,
                )
            ratios.append(found[True].seconds / found[False].seconds)
    print(f"watched over alone: {fmean(ratios):.3f}, each {', '.join(f'{ratio:.3f}' for ratio in ratios)}")
    return int(fmean(ratios) > chosen.limit)


async def run(config: Config, durations: Durations, windows: int) -> Found:
    """One run, watched or not."""
    return await measure(config, durations, False, (lambda folder: watched(folder, windows)) if windows else None)


if __name__ == "__main__":
    sys.exit(main())
