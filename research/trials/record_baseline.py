"""Writes finished runs of one search as a file that a run shows beside itself (the setting `baseline`).

    python research/trials/record_baseline.py runs/none-* --what "without learning" --candidates 640 \\
        --command "pace run --config configs/first_run.yaml --objective none --seed SEED" \\
        --to configs/baselines/first_run.json

The runs must differ in nothing but their seeds and lengths. The file says with which command they were made, and on
which day. Each curve is cut to --candidates, or to the length of the shortest run.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pace_async.baseline import Baseline
from pace_async.configure import flat
from research.benchmarks.bench_runs import connect, finished, refuse
from research.benchmarks.run_traces import read

STEP = 5
SAME = ("task", "evaluation.seed", "evaluation.fresh_seeds", "evaluation.settings", "implementer.model")
SAME_ROOMS = ("search.",)
SAME_ADVISOR = ("advisor.model", "advisor.calls", "advisor.first_word", "advisor.temperature")
"""The settings that a run must share to be compared. The learner's are left out, because the runs may differ in them,
and so are the places of things and the number of candidates."""

MAY_DIFFER = ("seed", "stop.candidates", "learner.horizon", "baseline")
"""Between the runs of a file. The horizon follows from the number of candidates."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--what", required=True, help='what the runs are, as in "without learning"')
    parser.add_argument("--command", required=True, help="that made them, with SEED for the seed")
    parser.add_argument("--to", required=True, type=Path, help="the file")
    parser.add_argument("--candidates", type=int, help="of each run; by default those of the shortest")
    chosen = parser.parse_args()
    made = recorded(chosen.runs, chosen.what, chosen.command, chosen.candidates)
    chosen.to.parent.mkdir(parents=True, exist_ok=True)
    chosen.to.write_text(as_text(made))
    sys.stdout.write(f"{chosen.to}: {len(made.seeds)} runs, {made.length} candidates each\n")
    return 0


def recorded(runs: Sequence[Path], what: str, command: str, candidates: int | None = None) -> Baseline:
    """The runs as a baseline, by seed."""
    unfinished = [str(run) for run in runs if not finished(run)]
    if unfinished:
        refuse(f"not finished: {', '.join(unfinished)}")
    settings = {run: _settings(run) for run in runs}
    first = settings[runs[0]]
    for run, own in settings.items():
        other = next((key for key in first if first[key] != own[key] and key not in MAY_DIFFER), None)
        if other is not None:
            refuse(f"{run} differs from {runs[0]} in {other}")
    traces = {run: read(run) for run in sorted(runs, key=lambda run: settings[run]["seed"])}
    length = candidates or min(len(trace.best) for trace in traces.values())
    sign = -1.0 if _direction(runs[0]) == "minimize" else 1.0
    curves: list[list[float]] = []
    for run, trace in traces.items():
        if len(trace.best) < length:
            refuse(f"{run} has {len(trace.best)} candidates, fewer than {length}")
        places = range(STEP, length + 1, STEP)
        curves.append([sign * trace.seed_score, *(sign * float(trace.best[place - 1]) for place in places)])
    kept = {key: value for key, value in first.items() if key in (*SAME, *SAME_ADVISOR) or key.startswith(SAME_ROOMS)}
    return Baseline.model_validate(
        {
            "what": what,
            "command": command,
            "date": time.strftime("%Y-%m-%d", time.gmtime(max(_ended(run) for run in runs))),
            "seeds": [settings[run]["seed"] for run in traces],
            "settings": kept,
            "step": STEP,
            "curves": curves,
        }
    )


def as_text(baseline: Baseline) -> str:
    """The file: one line for each curve. Scores have six decimals, but for the seed program's, which is compared."""
    document = baseline.model_dump(mode="json")
    curves = [[first, *(round(score, 6) for score in rest)] for first, *rest in document.pop("curves")]
    head = json.dumps(document, indent=1).removesuffix("\n}")
    lines = ",\n".join(f"  {json.dumps(curve)}" for curve in curves)
    return f'{head},\n "curves": [\n{lines}\n ]\n}}\n'


def _settings(run: Path) -> dict[str, Any]:
    [text] = connect(run).execute("select config from runs").fetchone()
    return flat(json.loads(text))


def _direction(run: Path) -> str:
    [direction] = connect(run).execute("select direction from runs").fetchone()
    return str(direction)


def _ended(run: Path) -> float:
    [at] = connect(run).execute("select max(at) from candidates").fetchone()
    return float(at)


if __name__ == "__main__":
    sys.exit(main())
