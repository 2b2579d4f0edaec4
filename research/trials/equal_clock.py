"""Compares the search behind a barrier with the asynchronous one after equal time, where evaluations take long.

    python research/trials/equal_clock.py --folder runs/science  # resumable: what has finished is not run again
    python research/trials/equal_clock.py --folder runs/science --report-only --plot docs/plots/equal_clock.svg

The plan is `CLOCK` of `research/trials/plan.py`, which was committed before the first of these runs. The task is
columnar with a program that sleeps before it answers, for a time that follows from its settings. The sleep stands for a
long evaluation on another machine. Each run is `pace run` with a limit of time, so a run that was stopped and resumed
is worth nothing here, and its folder must be deleted.
"""

import argparse
import shutil
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pace_async.task import load_task
from research.benchmarks.bench_runs import Wanted, connect, exit_code, finished, made_folder, positive, run_all, spread
from research.trials.figures import LEVEL, difference
from research.trials.page import joined
from research.trials.pictures import Panel, Steps, draw_panels
from research.trials.plan import CLOCK, clock_arguments

ARMS = (CLOCK.theirs, CLOCK.ours)
STEP = 10
"""Seconds between two points of the picture."""
SLEEP = '''
_awake = pipelines
_asleep = []


def pipelines(instance):
    """Sleep once, for a time that follows from the settings: lognormal, mean {sleep} s, cv {cv}, at most {cap} s."""
    import math
    import random
    import time

    if not _asleep:
        _asleep.append(True)
        variance = math.log1p({cv} ** 2)
        normal = random.Random(str(sorted(CHOSEN.items()))).gauss(0.0, 1.0)
        time.sleep(min({cap}, {sleep} * math.exp(math.sqrt(variance) * normal - variance / 2)))
    return _awake(instance)
'''


@dataclass(frozen=True, slots=True)
class Timed:
    """One run: the seconds since its first lease at which each candidate was complete, the best score after each, the
    seed program's score, and the mean seconds of an evaluation and of a learner's step."""

    seconds: Sequence[float]
    best: Sequence[float]
    first: float
    evaluation: float
    step: float

    def best_after(self, seconds: float) -> float:
        """The best score at that time."""
        done = self.done_after(seconds)
        return self.best[done - 1] if done else self.first

    def done_after(self, seconds: float) -> int:
        """The candidates that were complete by then."""
        return bisect_right(self.seconds, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=positive, default=10, help="runs at once; even, so that both arms are beside")
    parser.add_argument("--folder", type=Path, default=Path("runs/science"), help="of the runs")
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--plot", type=Path, help="an SVG file of best score and candidates over time")
    chosen = parser.parse_args()
    seeds = range(CLOCK.first, CLOCK.first + CLOCK.seeds)
    failed: list[str] = []
    if not chosen.report_only:
        made_folder(chosen.folder)
        task = sleeping_task(chosen.folder)
        wanted = [(arm, seed) for seed in seeds for arm in ARMS]
        runs = [Wanted(_folder(chosen.folder, arm, seed), clock_arguments(arm, task, seed)) for arm, seed in wanted]
        failed = run_all(runs, chosen.jobs)
    found = {arm: {seed: _folder(chosen.folder, arm, seed) for seed in seeds} for arm in ARMS}
    times = {arm: {s: timed(f) for s, f in runs.items() if finished(f)} for arm, runs in found.items()}
    sys.stdout.write(report(times))
    if chosen.plot:
        draw_panels(chosen.plot, panels(times))
    return exit_code(failed)


def sleeping_task(folder: Path) -> Path:
    """The task's folder, made once."""
    made = folder.absolute() / f"columnar_asleep_{CLOCK.sleep:g}s"
    if made.exists():
        return made
    real = load_task("columnar")
    shutil.copytree(real.folder, made, ignore=shutil.ignore_patterns("__pycache__"))
    program, spec = made / real.spec.program, made / "task.yaml"
    program.write_text(program.read_text() + SLEEP.format(sleep=CLOCK.sleep, cv=CLOCK.cv, cap=CLOCK.cap))
    text = spec.read_text().replace("name: columnar", f"name: {made.name}", 1)
    timeout = f"timeout_s: {real.spec.timeout_s + CLOCK.cap:g}"
    spec.write_text(text.replace(f"timeout_s: {real.spec.timeout_s:g}", timeout, 1))
    return made


def _folder(folder: Path, arm: str, seed: int) -> Path:
    return folder / f"columnar_asleep-{arm}-{seed}"


def timed(run: Path) -> Timed:
    """The times of a finished run."""
    database = connect(run)
    [first] = database.execute("select score from candidates where candidate = 0").fetchone()
    [began] = database.execute("select min(opened_at) from leases").fetchone()
    rows = database.execute(
        "select at, score, seconds from candidates where lease is not null order by at, candidate"
    ).fetchall()
    [step] = database.execute("select avg(seconds) from groups where state = 'trained'").fetchone()
    scores = np.array([first, *(first if score is None else score for _, score, _ in rows)])
    return Timed(
        seconds=[at - began for at, _, _ in rows],
        best=[float(score) for score in np.maximum.accumulate(scores)[1:]],
        first=first,
        evaluation=float(np.mean([seconds for _, _, seconds in rows])),
        step=float(step or 0.0),
    )


def report(found: Mapping[str, Mapping[int, Timed]]) -> str:
    """The tables of what has finished."""
    return joined([_arms(found), _curve(found), _equal_candidates(found), _verdict(found)])


def panels(found: Mapping[str, Mapping[int, Timed]]) -> Sequence[Panel]:
    """Best score and completed candidates over time."""
    marks = range(0, CLOCK.seconds + 1, STEP)

    def over_time(value: Callable[[Timed, int], float]) -> Mapping[str, Steps]:
        return {
            arm: Steps(0, STEP, [[value(run, mark) for mark in marks] for run in runs.values()])
            for arm, runs in found.items()
        }

    return [
        Panel("best score so far", "seconds", over_time(Timed.best_after)),
        Panel("candidates", "seconds", over_time(Timed.done_after)),
    ]


def _arms(found: Mapping[str, Mapping[int, Timed]]) -> Iterator[str]:
    yield f"| arm | seeds | candidates in {CLOCK.seconds} s | best then | evaluation, s | learner's step, s |"
    yield "|---|---|---|---|---|---|"
    for arm, runs in found.items():
        every = list(runs.values())
        if every:
            done = spread([float(run.done_after(CLOCK.seconds)) for run in every])
            best = spread([run.best_after(CLOCK.seconds) for run in every])
            evaluation, step = (np.mean([getattr(run, name) for run in every]) for name in ("evaluation", "step"))
            yield f"| {arm} | {len(every)} | {done} | {best} | {evaluation:.2f} | {step:.2f} |"


def _curve(found: Mapping[str, Mapping[int, Timed]]) -> Iterator[str]:
    yield f"| seconds | {' | '.join(found)} | {CLOCK.ours} less {CLOCK.theirs}, 95 % | pairs |"
    yield f"|---|{'---|' * (len(found) + 2)}"
    for mark in CLOCK.marks:
        at = {arm: {seed: run.best_after(mark) for seed, run in runs.items()} for arm, runs in found.items()}
        gap = difference(at[CLOCK.ours], at[CLOCK.theirs])
        if gap is not None:
            means = " | ".join(f"{np.mean(list(best.values())):.3f}" for best in at.values())
            yield f"| {mark} | {means} | {gap} | {gap.pairs} |"


def _equal_candidates(found: Mapping[str, Mapping[int, Timed]]) -> Iterator[str]:
    """The difference after as many candidates as the slower run of a pair completed. Exploratory."""
    ours, theirs = found[CLOCK.ours], found[CLOCK.theirs]
    done = {
        seed: min(run.done_after(CLOCK.seconds) for run in (ours[seed], theirs[seed]))
        for seed in ours.keys() & theirs.keys()
    }
    at = [{seed: runs[seed].best[number - 1] for seed, number in done.items() if number} for runs in (ours, theirs)]
    if (gap := difference(*at)) is not None:
        yield f"After as many candidates as the slower run of each pair: {CLOCK.ours} less {CLOCK.theirs} {gap}."


def _verdict(found: Mapping[str, Mapping[int, Timed]]) -> Iterator[str]:
    at = {arm: {seed: run.best_after(CLOCK.seconds) for seed, run in runs.items()} for arm, runs in found.items()}
    gap = difference(at[CLOCK.ours], at[CLOCK.theirs])
    if gap is None or gap.pairs < CLOCK.seeds:
        yield f"No verdict: {0 if gap is None else gap.pairs} of {CLOCK.seeds} pairs have finished."
    else:
        sure = "not told apart" if gap.p >= LEVEL else "reproduced" if gap.mean > 0 else "contradicted"
        yield f"{CLOCK.ours} is ahead of {CLOCK.theirs} after {CLOCK.seconds} s: {sure}, {gap}, p = {gap.p:.2g}."


if __name__ == "__main__":
    sys.exit(main())
