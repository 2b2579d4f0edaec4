"""What staleness costs and what each correction buys, where the right answer is known: the bandit of `toys.py`.

    python scripts/bench_correction.py --jobs 2

Every group is sampled by the version `stale` updates behind, the worst that a bound of `stale` allows; 40 groups a run.
Printed for each correction, staleness and learning rate: the mean probability of the rewarded mechanism after the last
group with its 95 % interval, and in how many of the runs the answer was lost (less likely than at the start).
"""

import argparse
import copy
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

if TYPE_CHECKING:
    from pace_async.learn.settings import Settings

CORRECTIONS: dict[str, dict[str, Any]] = {
    "behaviour, cap 2 that halves with age": {},
    "behaviour, cap 2": {"age_cap": 1.0},
    "behaviour, no cap": {"cap": None},
    "behaviour, half the weight for each update of age": {"age_decay": 0.5},
    "behaviour, tokens beyond 1/2 to 2 masked": {"mask": "token"},
    "decoupled, cap 2": {"kind": "decoupled", "age_cap": 1.0},
    "decoupled, no cap": {"kind": "decoupled", "cap": None},
    "none": {},
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
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    stale, rates = [int(age) for age in chosen.stale.split(",")], [float(rate) for rate in chosen.rates.split(",")]
    arms = [Arm(*values) for values in product(CORRECTIONS, stale, rates)]
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    with tempfile.TemporaryDirectory(prefix="pace-correction-") as name, ProcessPoolExecutor(chosen.jobs) as pool:
        novice = pool.submit(_novice, Path(name) / "novice").result()
        runs = [(arm, seed) for arm in arms for seed in range(chosen.seeds)]
        found = list(pool.map(_run, [novice] * len(runs), *zip(*runs, strict=True), chunksize=chosen.seeds))
    for rate in rates:
        print(f"Learning rate {rate:g}:\n\n| correction | " + " | ".join(f"{age} behind" for age in stale) + " |")
        print("|---|" + "---|" * len(stale))
        for correction in CORRECTIONS:
            cells = [
                _cell([value for (arm, _), value in zip(runs, found, strict=True) if arm == Arm(correction, age, rate)])
                for age in stale
            ]
            print(f"| {correction} | " + " | ".join(cells) + " |")
        print()
    return 0


def _cell(values: Sequence[float]) -> str:
    import numpy as np
    from scipy import stats

    lost = sum(value < CHANCE for value in values)
    test: Any = stats
    half = test.sem(values) * test.t.ppf(0.975, len(values) - 1) if len(values) > 1 else float("nan")
    return f"{np.mean(values):.2f} ± {half:.2f}" + (f", {lost} lost" if lost else "")


def _novice(folder: Path) -> Path:
    from toys import write_novice

    return write_novice(folder)


def _run(novice: Path, arm: Arm, seed: int) -> float:
    from toys import Bandit

    from pace_async.learn.trainer import load_trainer

    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as out:
        trainer = load_trainer(novice, _settings(arm), Path(out))
        bandit = Bandit(
            copy.deepcopy(trainer.policy), seed=seed, stale=arm.stale, pretend=arm.correction == UNCORRECTED
        )
        for number in range(1, GROUPS + 1):
            group = bandit.group(number)
            if group is not None and not trainer.step(group).reason:
                bandit.versions.append(copy.deepcopy(trainer.policy))
        return bandit.found


def _settings(arm: Arm) -> "Settings":
    from pace_async.learn.correction import Correction
    from pace_async.learn.settings import Settings

    return Settings(learning_rate=arm.rate, correction=Correction(**CORRECTIONS[arm.correction]))


if __name__ == "__main__":
    sys.exit(main())
