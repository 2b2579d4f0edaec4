"""Whether a real language model learns while it searches, and in bfloat16 what it learns in float32: SmolLM2-135M.

    python research/trials/real_model.py --advisor FOLDER  # resumable: what has finished is not run again
    python research/trials/real_model.py --report-only

The plan is `REAL` of `research/trials/plan.py`. The advisor is what `research/advisor/read_with_smollm2.py` makes. The
tables say nothing of runs that have not finished. `research/trials/mechanism.py` shows the moves of the same runs.
"""

import argparse
import sys
from pathlib import Path

from pace_async.runtime.children.advisor_folder import MADE_HERE
from pace_async.task import CHECKOUT
from research.advisor.read_with_smollm2 import READER
from research.benchmarks.bench_runs import Wanted, exit_code, made_folder, positive, run_all
from research.trials.curves import curves_of, differences, scores
from research.trials.page import joined
from research.trials.plan import REAL, real_model_arguments

ARMS = ("none", "pace", "bf16", "shuffled")
"""In the order in which they are run, each with all seeds, so that an interrupted trial has whole arms."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--advisor", type=Path, default=MADE_HERE.expanduser() / READER, help="its folder")
    parser.add_argument("--jobs", type=positive, default=1, help="runs at once")
    parser.add_argument("--folder", type=Path, default=Path("runs/science"), help="of the runs")
    parser.add_argument("--report-only", action="store_true")
    chosen = parser.parse_args()
    folders = {
        (arm, seed): chosen.folder / f"smollm2_{arm}-{seed}"
        for arm in ARMS
        for seed in range(REAL.first, REAL.first + REAL.seeds)
    }
    failed: list[str] = []
    if not chosen.report_only:
        made_folder(chosen.folder)
        config, advisor = CHECKOUT / "configs" / REAL.config, chosen.advisor.absolute()
        runs = [
            Wanted(folder, real_model_arguments(arm, config, advisor, seed)) for (arm, seed), folder in folders.items()
        ]
        failed = run_all(runs, chosen.jobs)
    curves = curves_of(folders)
    against = ("none", "pace")
    sys.stdout.write(joined([scores(curves, REAL.marks), *(differences(curves, arm, REAL.marks) for arm in against)]))
    return exit_code(failed)


if __name__ == "__main__":
    sys.exit(main())
