"""Measures the cost of staleness and the gain of each correction on the bandit of `toys.py`, whose answer is known.

    python research/benchmarks/bench_correction.py --jobs 2

Every group is sampled by the version `stale` updates behind, the oldest that a bound of `stale` allows. A run has 40
groups. The script prints for each learning rate, correction and staleness the probability of the rewarded mechanism:
its mean over all 40 groups (speed of learning) and its value after the last (quality), each with its 95 % interval over
the runs. It also prints the number of runs that lost the answer (less likely at the end than at the start).
"""

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from research.benchmarks.bench_runs import interval

if TYPE_CHECKING:
    from pace_async.learn.settings import TrainerConfig

CORRECTIONS: dict[str, dict[str, Any]] = {
    "behaviour, cap 2 that halves with age": {"kind": "behaviour"},
    "behaviour, cap 2": {"kind": "behaviour", "age_cap": 1.0},
    "behaviour, no cap": {"kind": "behaviour", "cap": None},
    "decoupled, cap 2 that halves with age": {"kind": "decoupled"},
    "decoupled, cap 2": {"kind": "decoupled", "age_cap": 1.0},
    "decoupled, no cap": {"kind": "decoupled", "cap": None},
    "none": {"kind": "behaviour"},
}
UNCORRECTED = "none"
GROUPS = 40
CHANCE = 1 / 8


@dataclass(frozen=True, slots=True)
class Arm:
    """One row of the table."""

    correction: str
    stale: int
    rate: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stale", default="0,2,4,8", help="updates behind")
    parser.add_argument("--rates", default="0.003,0.01", help="learning rates")
    parser.add_argument("--seeds", type=int, default=16, help="runs of each kind")
    parser.add_argument("--corrections", default="", help="only those whose name begins so")
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    stale, rates = [int(age) for age in chosen.stale.split(",")], [float(rate) for rate in chosen.rates.split(",")]
    corrections = [name for name in CORRECTIONS if name.startswith(chosen.corrections)]
    arms = [Arm(*values) for values in product(corrections, stale, rates)]
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    with tempfile.TemporaryDirectory(prefix="pace-correction-") as name, ProcessPoolExecutor(chosen.jobs) as pool:
        novice = pool.submit(_novice, Path(name) / "novice").result()
        runs = [(arm, seed) for arm in arms for seed in range(chosen.seeds)]
        found = list(pool.map(_run, [novice] * len(runs), *zip(*runs, strict=True), chunksize=chosen.seeds))
    curves: dict[Arm, list[list[float]]] = {arm: [] for arm in arms}
    for (arm, _), curve in zip(runs, found, strict=True):
        curves[arm].append(curve)
    for rate in rates:
        print(f"Learning rate {rate:g}:\n\n| correction | " + " | ".join(f"{age} behind" for age in stale) + " |")
        print("|---|" + "---|" * len(stale))
        for correction in corrections:
            cells = [_cell(curves[Arm(correction, age, rate)]) for age in stale]
            print(f"| {correction} | " + " | ".join(cells) + " |")
        print(flush=True)
    return 0


def _cell(curves: Sequence[Sequence[float]]) -> str:
    last = [curve[-1] for curve in curves]
    lost = sum(value < CHANCE for value in last)
    means = [sum(curve) / len(curve) for curve in curves]
    return f"{interval(means)}; {interval(last)}" + (f", {lost} lost" if lost else "")


def _novice(folder: Path) -> Path:
    from scripts.benchmarks.toys import write_novice

    return write_novice(folder)


def _run(novice: Path, arm: Arm, seed: int) -> list[float]:
    """The probability of the rewarded mechanism after each group."""
    from transformers.utils.logging import disable_progress_bar

    from pace_async.learn.trainer import load_trainer
    from scripts.benchmarks.toys import Bandit, copied

    logging.disable(logging.WARNING)
    disable_progress_bar()
    with tempfile.TemporaryDirectory() as out:
        trainer = load_trainer(novice, _settings(arm), Path(out))
        bandit = Bandit(copied(trainer.policy), seed=seed, stale=arm.stale, pretend=arm.correction == UNCORRECTED)
        found: list[float] = []
        for number in range(1, GROUPS + 1):
            group = bandit.group(number)
            if group is not None and not trainer.step(group).reason:
                bandit.versions.append(copied(trainer.policy))
            found.append(bandit.found)
        return found


def _settings(arm: Arm) -> "TrainerConfig":
    from pace_async.learn.correction import Correction
    from pace_async.learn.settings import TrainerConfig

    return TrainerConfig(learning_rate=arm.rate, correction=Correction(**CORRECTIONS[arm.correction]))


if __name__ == "__main__":
    sys.exit(main())
