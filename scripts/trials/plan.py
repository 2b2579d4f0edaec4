"""The plan of the trials of learning, written before fresh seeds run: testbeds, arms, seeds, what decides a verdict.

Rules. Seeds below FRESH are for development: everything may be looked at. Seeds from FRESH on decide verdicts, and a
change of arms, settings or code that is made after some of them were seen needs new ones: raise FRESH. A verdict hangs
on the comparisons in CONFIRMED alone, with Holm's correction over all of them together. All other figures are
exploratory: interval, no verdict. Arms are paired by seed: equal seeds give equal hidden tables. A run that never
reaches the mark
counts there with its whole length, and is counted as censored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scripts.benchmarks.bench_runs import Wanted, refuse

FRESH = 1000
"""The first fresh seed."""
CANDIDATES = 1000
"""Of a run. Figures at 480 are those of its first 480 candidates, so alpha's schedule is that of the whole run."""
MARKS = (480, CANDIDATES)
HALF = 0.5
"""The mark that is to be reached: this share of the way from the seed program to the best known one."""
TESTBEDS = ("columnar", "expression_passes")
MARGIN = 0.05
"""Of the range: two arms that differ by less are equivalent."""
COMMON = (
    "--advisor",
    "reader",
    "--set=advisor.calls=one",
    "--set=search.threads=8",
    "--set=search.migration=1",
    "--set=learner.group_size=8",
)
"""Of all arms: one call a rollout, eight islands that meet at every step, groups of eight."""
RATES = (1e-4, 3e-4, 1e-3)
"""Of the sweep over learning rates, for each objective apart."""
RELATIVE = ("--set=reward.relative_to=parent", "--set=reward.scale=20")
"""Rewards are gains over the parent: one of 2.5 % of the range earns as much as a failure loses."""
FREE = ("--set=learner.max_move=0.1", "--set=learner.min_move_ess=0.5")
"""A step may move the policy ten times as far as by default."""
OBJECTIVES = ("pace", "grpo", "maxk", "entropic")
CHOSEN_RATES: Mapping[str, float] = dict.fromkeys(OBJECTIVES, 1e-4)
"""What the sweep on development seeds chose."""

Measure = Literal["share after 480", "share after 1000", "evaluations to the mark", "area"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A claim, and the difference that decides it: `ours` less `theirs` on a testbed, with so many fresh seeds.
    `better` is the sign of the difference if the claim is true. 0: the claim is that they are equivalent within
    MARGIN."""

    claim: str
    testbed: str
    ours: str
    theirs: str
    measure: Measure
    better: int
    seeds: int


def _learning(testbed: str) -> Sequence[Comparison]:
    return (
        Comparison("Learning finds better programs", testbed, "pace", "none", "share after 1000", +1, 10),
        Comparison("Learning needs fewer evaluations", testbed, "pace", "none", "evaluations to the mark", -1, 10),
    )


CONFIRMED: Sequence[Comparison] = (
    *_learning("columnar"),
    *_learning("expression_passes"),
    Comparison("It is what the rewards say that helps", "columnar", "pace", "shuffled", "share after 1000", +1, 10),
    Comparison("pace is ahead of grpo", "columnar", "pace", "grpo", "share after 1000", +1, 20),
    Comparison("pace is ahead of maxk", "columnar", "pace", "maxk", "share after 1000", +1, 20),
    Comparison("pace is ahead of entropic", "columnar", "pace", "entropic", "share after 1000", +1, 20),
    Comparison("A staleness of 2 costs nothing", "columnar", "pace", "sync", "share after 1000", 0, 15),
)


def arm_arguments() -> Mapping[str, Sequence[str]]:
    """The arguments of `pace run` of each arm, without task, seeds and length."""

    def learner(objective: str, *more: str) -> Sequence[str]:
        return ("--objective", objective, *rate(CHOSEN_RATES[objective]), *more)

    stale = {f"staleness {bound}": learner("pace", "--max-staleness", str(bound)) for bound in (8, 32)}
    kinds = {
        f"correction {kind}": learner("pace", f"--set=learner.correction={kind}") for kind in ("behaviour", "vespo")
    }
    sweep = {
        f"{objective} at {size:g}": ("--objective", objective, *rate(size))
        for objective in OBJECTIVES
        for size in RATES
    }
    return {
        "none": ("--objective", "none"),
        **{objective: learner(objective) for objective in OBJECTIVES},
        "shuffled": learner("pace", "--set=learner.shuffle_rewards=true"),
        "sync": learner("pace", "--sync"),
        "compression": learner("pace", "--set=learner.alpha_schedule=compression"),
        "relative": learner("pace", *RELATIVE),
        "rate times ess": learner("pace", "--set=learner.ess_rate=true"),
        **kinds,
        "correction m2po": learner("pace", "--set=learner.correction=m2po"),
        **stale,
        **sweep,
        **{f"free at {size:g}": ("--objective", "pace", *FREE, *rate(size)) for size in (*RATES, 3e-3)},
        **{f"free relative at {size:g}": ("--objective", "pace", *FREE, *RELATIVE, *rate(size)) for size in RATES},
        **{f"relative at {size:g}": ("--objective", "pace", *RELATIVE, *rate(size)) for size in RATES},
    }


def rate(size: float) -> Sequence[str]:
    """The setting of the learning rate of an advisor in the package."""
    return (f"--set=learner.tiny_learning_rate={size:g}",)


def run_of(folder: Path, testbed: str, arm: str, seed: int, candidates: int) -> Wanted:
    """One run, in a folder that says which."""
    arms = arm_arguments()
    if arm not in arms:
        refuse(f"there is no arm {arm!r}: {', '.join(arms)}")
    numbers = ("--seed", str(seed), f"--set=evaluation.seed={seed}", "--candidates", str(candidates))
    return Wanted(folder_of(folder, testbed, arm, seed, candidates), [testbed, *COMMON, *arms[arm], *numbers])


def folder_of(folder: Path, testbed: str, arm: str, seed: int, candidates: int) -> Path:
    """Its folder."""
    return folder / f"{testbed}-{arm.replace(' ', '_')}-{seed}-{candidates}"


def confirmatory() -> Sequence[tuple[str, str, int]]:
    """Testbed, arm and seed of every run that a verdict needs, ordered by seed: what has run so far is paired."""
    wanted: dict[tuple[int, str, str], None] = {}
    for comparison in CONFIRMED:
        for seed in range(FRESH, FRESH + comparison.seeds):
            wanted |= {(seed, comparison.testbed, arm): None for arm in (comparison.theirs, comparison.ours)}
    order = {name: place for place, name in enumerate(arm_arguments())}
    every = sorted(wanted, key=lambda run: (run[0], TESTBEDS.index(run[1]), order[run[2]]))
    return [(testbed, arm, seed) for seed, testbed, arm in every]
