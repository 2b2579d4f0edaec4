"""What staleness costs and what a correction is worth, where everything else is equally fresh: a lag that is forced.

    python research/trials/forced_lag.py usual --jobs 2  # what has finished is not run again
    python research/trials/forced_lag.py fast --report-only

The plans are in `research/trials/lag_plan.py`. In each run eight threads wait at a barrier, as with `--sync`, and
the engine serves the version that is `lag` updates behind the newest. So every token is exactly so old once there are
that many versions, in every arm, and the parents are equally fresh in all of them.

`pace run` has no setting for this. The script runs it with two functions of the runtime replaced: the one that admits
a rollout, and the one that publishes a version. A run that was interrupted begins again.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from research.benchmarks.bench_runs import exit_code, finished, made_folder, positive
from research.trials.lag_plan import DESIGNS, Trial, arguments, trials
from research.trials.lag_report import report

if TYPE_CHECKING:
    from pace_async.publish.base import Publisher, Receipt

CHILD = "--as-pace"
"""With this and a lag before its arguments the script is `pace` with that lag."""
LAGGING = "lagging"
"""The folder of a run in which versions wait until they are served."""


def main() -> int:
    if sys.argv[1:2] == [CHILD]:
        pace_with_lag(int(sys.argv[2]), sys.argv[3:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("design", choices=tuple(DESIGNS), help="which runs")
    parser.add_argument("--jobs", type=positive, default=1, help="runs at once")
    parser.add_argument("--folder", type=Path, default=Path("runs/lag"), help="of the runs")
    parser.add_argument("--csv", type=Path, help="a file for one row a run")
    parser.add_argument("--report-only", action="store_true")
    chosen = parser.parse_args()
    folders = {
        trial: chosen.folder / chosen.design / f"lag{trial.lag}_{trial.arm.replace(' ', '_')}-{trial.seed}"
        for trial in trials(DESIGNS[chosen.design])
    }
    failed: list[str] = []
    if not chosen.report_only:
        made_folder(chosen.folder / chosen.design)
        with ThreadPoolExecutor(chosen.jobs) as pool:
            names = pool.map(_run, folders.values(), folders)
            failed = [name for name in names if name]
    sys.stdout.write(report(folders, DESIGNS[chosen.design].control, chosen.csv))
    return exit_code(failed)


def _run(folder: Path, trial: Trial) -> str | None:
    """Run it unless it has finished. Returns its name if it failed."""
    if finished(folder):
        return None
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "research.trials.forced_lag", CHILD, str(trial.lag), "run", *arguments(trial)]
    command += ["--run-dir", str(folder), "--display", "none"]
    began = time.monotonic()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    sys.stderr.write(f"{folder.name}: exit {ended.returncode} after {time.monotonic() - began:.0f} s\n")
    if ended.returncode:
        sys.stderr.write(ended.stderr[-500:])
        return folder.name
    for unneeded in (LAGGING, "learner"):
        shutil.rmtree(folder / unneeded, ignore_errors=True)
    return None


@dataclass(frozen=True, slots=True)
class _Overdue:
    """A `Publisher` that publishes the version that is due instead of the newest."""

    publisher: "Publisher"
    version: int
    weights: Path

    async def publish(self, version: int, weights: Path) -> "Receipt":
        return await self.publisher.publish(self.version, self.weights)


def pace_with_lag(lag: int, given: Sequence[str]) -> None:
    """Be `pace` with these arguments, and serve each version `lag` updates after it was made."""
    from pace_async.cli.main import main as pace
    from pace_async.runtime.run import learning
    from pace_async.runtime.run.core import Core
    from pace_async.staleness import policies

    push_now = learning.push

    def may_admit(open_leases: int, behind: int, *, bound: int, size: int) -> bool:
        """A barrier: as many open leases as a group has, and none before the version that is due is served."""
        return behind <= bound and open_leases < size

    async def push(core: Core, publisher: "Publisher") -> None:
        """Keep the newest version, and publish the one that is `lag` updates behind it."""
        newest, waiting = core.state.learner, core.groups_folder.parent / LAGGING
        shutil.copytree(str(core.state.weights), waiting / str(newest))
        if newest > lag:
            due = waiting / str(newest - lag)
            await push_now(core, _Overdue(publisher, newest - lag, due))

    policies.may_admit = may_admit
    learning.push = push
    sys.argv = ["pace", *given]
    pace()


if __name__ == "__main__":
    sys.exit(main())
