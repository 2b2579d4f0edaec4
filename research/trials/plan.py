"""The plan of the trials of learning, written before fresh seeds run: testbeds, arms, seeds, what decides a verdict.

Rules. Seeds below FRESH are for development: everything may be looked at. Seeds from FRESH on decide verdicts, and a
change of arms, settings or code that is made after some of them were seen needs new ones: a new family with a first
seed of its own. A verdict depends on the comparisons of its family alone, with Holm's correction over all of them
together. All other figures are exploratory: interval, no verdict. Arms are paired by seed: equal seeds give equal
hidden tables. A run that never reaches the mark counts there with its whole length, and is counted as censored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from research.benchmarks.bench_runs import Wanted, refuse
from research.trials.noise import NOISY

FRESH = 1000
"""The first fresh seed."""
CANDIDATES = 1000
"""Of a run. Figures at 480 are those of its first 480 candidates, so alpha's schedule is that of the whole run."""
MARKS = (480, CANDIDATES)
EXPLORED = MARKS
"""Lengths of exploratory runs. A run of 480 has a schedule of alpha of that length, so it is not the beginning of a
longer one."""
HALF = 0.5
"""The mark that is to be reached: this share of the way from the seed program to the best known one."""
TESTBEDS = ("columnar", "expression_passes")
EXPLORED_TESTBEDS = (*TESTBEDS, NOISY)
MARGIN = 0.05
"""Of the range: two arms that differ by less are equivalent."""
COMMON = (
    "--advisor",
    "reader",
    "--set=advisor.calls=one",
    "--set=search.threads=8",
    "--set=search.migration=1",
)
"""Of all arms: one call a rollout, eight islands that meet at every step."""
OBJECTIVES = ("pace", "grpo", "maxk", "entropic")
RELATIVE = ("--set=reward.relative_to=parent", "--set=reward.scale=20")
"""Rewards are gains over the parent: one of 5 % of the range earns as much as a failure loses."""
NO_LOSSES = ("--set=reward.floor=0",)
"""A program that is worse than its parent earns 0, as one that is equal: it costs the search one evaluation too."""
MECHANISM_FIRST = ("--set=advisor.first_word=mechanism",)
"""The first choice of an answer is which mechanism, and not which site. All sites of a kind are worth the same."""
FREE = ("--set=learner.max_move=0.1", "--set=learner.min_move_ess=0.5")
"""A step may move the policy ten times as far as by default: a call has six tokens, of which two are a choice."""
RATE = 1e-4
"""The default of an advisor in the package. Development seeds: 3e-4 is ahead after 480 candidates and behind after
1,000, 1e-3 falls behind no learning."""
RATES = (1e-4, 3e-4, 1e-3)
"""Of the sweep over learning rates."""
OWN_RATE = {"pace": 1e-4, "grpo": 1e-4, "maxk": 1e-4, "entropic": 3e-4}
"""Of each objective the rate with the highest mean share after 1,000 candidates of columnar on development seeds: 0 to
2 for grpo and maxk. 1e-4 and 3e-4 of pace and entropic were compared on seeds 0 to 5."""
KL = (0.03, 0.1)
"""Of the sweep over the penalty on the distance from version 0."""
THREADS = {8: 64, 32: 256}
"""Of each larger bound on the staleness, the search threads that let tokens become as old: B = 8 for each update of the
bound. With eight threads tokens would stay fresh under any bound."""
FEWER_THREADS = 4
"""A control: without learning, threads whose parents are as fresh as those of a run that waits for its learner now and
then. freshness.py counts how many candidates end while one is on its way."""
CORRECTIONS = {
    "decoupled": (),
    "behaviour": ("--set=learner.correction=behaviour",),
    "m2po": ("--set=learner.correction=m2po",),
}
"""Compared at each of these bounds. decoupled is the default."""

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


def _learning(testbed: str, ours: str = "pace", theirs: str = "none") -> Sequence[Comparison]:
    return (
        Comparison("Learning finds better programs", testbed, ours, theirs, "share after 1000", +1, 10),
        Comparison("Learning needs fewer evaluations", testbed, ours, theirs, "evaluations to the mark", -1, 10),
    )


@dataclass(frozen=True, slots=True)
class Family:
    """Comparisons that were planned together. Their fresh seeds begin at `first`."""

    first: int
    comparisons: Sequence[Comparison]


def own(objective: str) -> str:
    """The arm of an objective at its own rate."""
    return f"{objective} at {OWN_RATE[objective]:g}"


def _against(objective: str) -> Comparison:
    claim = f"Better programs than with {objective}"
    return Comparison(claim, "columnar", own("pace"), own(objective), "share after 1000", +1, 20)


_PAYS: Sequence[Comparison] = (
    *_learning("columnar"),
    Comparison("It is what the rewards say that helps", "columnar", "pace", "shuffled", "share after 1000", +1, 10),
    Comparison(
        "Three calls without learning do worse", "columnar", "pace", "none with three calls", "share after 1000", +1, 10
    ),
    Comparison("A bandit without a model is ahead", "columnar", "bandit", "pace", "share after 1000", +1, 10),
    *_learning("expression_passes"),
)
_COMPARED: Sequence[Comparison] = (
    *(_against(objective) for objective in OBJECTIVES if objective != "pace"),
    Comparison(
        "Without a barrier nothing is lost", "columnar", own("pace"), f"sync {own('pace')}", "share after 1000", 0, 15
    ),
)
_NAMED = ("pace mechanism first at 0.0001", "none mechanism first")

FAMILIES = {
    "learning": Family(FRESH, _PAYS),
    "objectives": Family(2000, _COMPARED),
    "mechanism_first": Family(8000, _learning("expression_passes", *_NAMED)),
    "mechanism_first_columnar": Family(9000, _learning("columnar", *_NAMED)),
}
"""learning: whether it pays to learn. objectives: which objective, each at its own rate, and whether the barrier is
needed. Planned on 24 November 2026, the second one after the verdicts of the first. The two families of MECHANISM_FIRST
were planned on 26 November 2026, after two development seeds of expression_passes and none of columnar."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Two arms of equal seeds that stop at the same time, on columnar with a program that sleeps: lognormal, a mean of
    `sleep` seconds with a coefficient of variation `cv`, cut off at `cap`. The claim: after `seconds` the best score of
    `ours` is higher than that of `theirs`. It is one comparison, so nothing is corrected. `marks` are exploratory. The
    scores are those of the task, in bits, because the end of the way is not known on these tables. A run goes on for
    `slack` seconds more, which are not looked at, so that a late start costs no run its end."""

    first: int
    seeds: int
    seconds: int
    marks: Sequence[int]
    ours: str
    theirs: str
    sleep: float
    cv: float
    cap: float
    slack: float


CLOCK = Clock(4000, 10, 1200, (200, 400, 600, 800, 1000, 1200), "async", "sync", 20.0, 0.6, 60.0, 30.0)
"""Equal wall clock. Planned on 25 November 2026, before any of its runs. Eight threads and eight evaluations at once in
both arms, staleness at most 2 or a barrier after each group. No new best is confirmed on fresh instances, because that
sleeps again. The horizon of alpha is that of CANDIDATES. An earlier plan (seeds from 3,000, 360 s, sleeps of 6 s) was
given up after three of its ten pairs, because the machine needed 7 s for a learner's step. These pairs were looked at,
so the seeds are new. Time and sleep are longer, so that what else the machine does weighs less."""


def clock_arguments(arm: str, task: Path, seed: int) -> Sequence[str]:
    """The arguments of `pace run` of one of the two arms of CLOCK, with its time as the limit."""
    modes = {"async": ("--async", "--max-staleness", "2"), "sync": ("--sync",)}
    own_rate = f"--set=learner.tiny_learning_rate={OWN_RATE['pace']:g}"
    learner = ("--objective", "pace", *FREE, *RELATIVE, own_rate, f"--set=learner.horizon={CANDIDATES // 8}")
    evaluation = ("--set=evaluation.slots=8", "--set=evaluation.fresh_seeds=0", f"--set=evaluation.seed={seed}")
    limit = ("--seed", str(seed), "--minutes", f"{(CLOCK.seconds + CLOCK.slack) / 60:g}")
    return (str(task), *COMMON, *learner, *modes[arm], *evaluation, *limit)


@dataclass(frozen=True, slots=True)
class EqualFreshness:
    """Arms of equal seeds on columnar with a program that sleeps as long as in CLOCK. Evaluations take so much longer
    than a learner's step that no arm waits for its learner, and parents are equally fresh in both. The claim: the best
    score of `ours` after `candidates` is higher than that of `theirs`, paired by seed. It is one comparison. The marks
    before the last are exploratory."""

    first: int
    seeds: int
    candidates: int
    marks: Sequence[int]
    ours: str
    theirs: str


FRESHNESS = EqualFreshness(7000, 10, 480, (160, 320, 480), "pace", "none")
"""Whether learning pays where parents are equally fresh. Planned on 25 November 2026, before any of its runs. On tables
without sleeps a run that learns waits for its learner now and then, so fewer candidates end while one is on its way,
and two runs without learning and with four threads found as much as two runs that learn with eight."""


def equal_freshness_arguments(arm: str, task: Path, seed: int) -> Sequence[str]:
    """The arguments of `pace run` of an arm of FRESHNESS."""
    rate = f"--set=learner.tiny_learning_rate={OWN_RATE['pace']:g}"
    learners = {"pace": ("--objective", "pace", *FREE, *RELATIVE, rate), "none": ("--objective", "none")}
    evaluation = ("--set=evaluation.slots=8", "--set=evaluation.fresh_seeds=0", f"--set=evaluation.seed={seed}")
    numbers = ("--seed", str(seed), "--candidates", str(FRESHNESS.candidates))
    return (str(task), *COMMON, *learners[arm], "--async", "--max-staleness", "2", *evaluation, *numbers)


@dataclass(frozen=True, slots=True)
class RealModel:
    """Arms of equal seeds on columnar whose advisor is a language model of its own, by `config` of the folder configs.
    Development: figures and intervals, no verdict."""

    config: str
    first: int
    seeds: int
    candidates: int
    marks: Sequence[int]


REAL = RealModel("smollm2_columnar.yaml", 60, 3, 240, (80, 160, 240))
"""SmolLM2-135M, asynchronous with a staleness of at most 2. Planned on 29 November 2026, before its first run. In an
earlier plan, of 25 November, seeds 50 to 52 had 120 candidates each, and none learned in bfloat16."""


def real_model_arguments(arm: str, config: Path, advisor: Path, seed: int) -> Sequence[str]:
    """The arguments of `pace run` of an arm of REAL: none, pace, shuffled, or bf16, which is pace with passes in
    bfloat16."""
    arms = {
        "none": ("--objective", "none"),
        "pace": (),
        "bf16": ("--set=learner.precision=bf16",),
        "shuffled": ("--set=learner.shuffle_rewards=true",),
    }
    numbers = ("--seed", str(seed), f"--set=evaluation.seed={seed}", "--candidates", str(REAL.candidates))
    return ("--config", str(config), "--advisor", str(advisor), *arms[arm], *numbers)


def arm_arguments() -> Mapping[str, Sequence[str]]:
    """The arguments of `pace run` of each arm, without task, seeds and length. The names of sweeps end in the rate."""

    def learner(objective: str, *more: str, size: float = RATE) -> Sequence[str]:
        return ("--objective", objective, *FREE, *RELATIVE, f"--set=learner.tiny_learning_rate={size:g}", *more)

    def pace(*more: str) -> Sequence[str]:
        return learner("pace", *more)

    stale = {
        f"staleness {bound} {kind}": pace("--max-staleness", str(bound), f"--set=search.threads={threads}", *settings)
        for bound, threads in THREADS.items()
        for kind, settings in CORRECTIONS.items()
    }
    return {
        "none": ("--objective", "none"),
        "none with three calls": ("--objective", "none", "--set=advisor.calls=three"),
        "bandit": ("--advisor", "bandit", "--objective", "none"),
        **{objective: learner(objective) for objective in OBJECTIVES},
        "shuffled": pace("--set=learner.shuffle_rewards=true"),
        "three calls": pace("--set=advisor.calls=three"),
        "collapsed groups skipped": pace("--set=learner.collapsed=skip"),
        **{
            f"no losses{more} at {size:g}": learner("pace", *NO_LOSSES, *settings, size=size)
            for more, settings in (("", ()), (" kl 0.1", ("--set=learner.kl_penalty=0.1",)))
            for size in RATES
        },
        "none mechanism first": ("--objective", "none", *MECHANISM_FIRST),
        **{f"pace mechanism first at {size:g}": learner("pace", *MECHANISM_FIRST, size=size) for size in RATES},
        "kl 0.1 mechanism first at 0.0003": learner(
            "pace", *MECHANISM_FIRST, "--set=learner.kl_penalty=0.1", size=3e-4
        ),
        "rewards of seed": pace("--set=reward.relative_to=seed", "--set=reward.scale=5"),
        "rewards of bounds": pace("--set=reward.relative_to=bounds", "--set=reward.scale=5"),
        "usual limits": pace("--set=learner.max_move=0.01", "--set=learner.min_move_ess=0.9"),
        "sync": pace("--sync"),
        f"sync {own('pace')}": learner("pace", "--sync", size=OWN_RATE["pace"]),
        "alpha fixed": pace("--set=learner.alpha_schedule=fixed", "--set=learner.alpha_start=0.5"),
        "alpha reversed": pace("--set=learner.alpha_schedule=reversed"),
        "compression": pace("--set=learner.alpha_schedule=compression"),
        **{
            f"none with {threads} threads": ("--objective", "none", f"--set=search.threads={threads}")
            for threads in (FEWER_THREADS, *THREADS.values())
        },
        **stale,
        **{f"{objective} at {size:g}": learner(objective, size=size) for objective in OBJECTIVES for size in RATES},
        **{
            f"kl {kl:g} at {size:g}": learner("pace", f"--set=learner.kl_penalty={kl:g}", size=size)
            for kl in KL
            for size in RATES
        },
    }


def run_of(folder: Path, testbed: str, arm: str, seed: int, candidates: int) -> Wanted:
    """One run, in a folder that says which."""
    arms = arm_arguments()
    if arm not in arms:
        refuse(f"there is no arm {arm!r}: {', '.join(arms)}")
    numbers = ("--seed", str(seed), f"--set=evaluation.seed={seed}", "--candidates", str(candidates))
    task = str(folder.absolute() / NOISY) if testbed == NOISY else testbed
    return Wanted(folder_of(folder, testbed, arm, seed, candidates), [task, *COMMON, *arms[arm], *numbers])


def folder_of(folder: Path, testbed: str, arm: str, seed: int, candidates: int) -> Path:
    """Its folder."""
    return folder / f"{testbed}-{arm.replace(' ', '_')}-{seed}-{candidates}"


def confirmatory(family: Family) -> Sequence[tuple[str, str, int]]:
    """Testbed, arm and seed of every run that a family's verdicts need, those of a testbed together, by seed."""
    wanted: dict[tuple[int, str, str], None] = {}
    for comparison in family.comparisons:
        for seed in range(family.first, family.first + comparison.seeds):
            wanted |= {(seed, comparison.testbed, arm): None for arm in (comparison.theirs, comparison.ours)}
    order = {name: place for place, name in enumerate(arm_arguments())}
    every = sorted(wanted, key=lambda run: (TESTBEDS.index(run[1]), run[0], order[run[2]]))
    return [(testbed, arm, seed) for seed, testbed, arm in every]
