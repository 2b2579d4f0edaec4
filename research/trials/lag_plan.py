"""The plans of `forced_lag.py`: lags, corrections, guards, seeds.

USUAL was planned on 28 November 2026, before its first run. FAST was added after the first of five seeds of USUAL had
shown how little their policies move. GUARDS was planned with them. WARMUP was planned the same day, after GUARDS had
shown its five seeds, and was run the same day.

Development: figures with intervals, each against its control and paired by seed. Arms of equal seeds have equal hidden
tables and equal draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from research.trials.plan import COMMON, FREE, OWN_RATE, RELATIVE

Arguments = Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Runs of equal length and learning rate on columnar. `lags` are updates between the newest version and the one
    that is served. `arms` have settings of their own, and each is compared with the arm `control`. `limits` are
    settings of all arms."""

    name: str
    candidates: int
    rate: float
    lags: Sequence[int]
    arms: Mapping[str, Arguments]
    control: str
    seeds: range
    limits: Arguments = FREE


@dataclass(frozen=True, slots=True)
class Trial:
    """One run."""

    design: Design
    lag: int
    arm: str
    seed: int


def _corrections(*names: str) -> Mapping[str, Arguments]:
    return {name: (f"--set=learner.correction={name}",) for name in names}


FRESH = "decoupled"
"""The arm of USUAL without a lag. Nothing is corrected there."""
STILL = "still"
"""The arm of USUAL that trains at STILL_RATE, and so not at all. Its parents are as fresh as those of the others."""
STILL_RATE = 1e-12
UNCORRECTED = "none"
"""The control of the corrections: each token counts as if the newest version had sampled it."""
_FOUR = (UNCORRECTED, "decoupled", "sequence", "geometric")
USUAL = Design("usual", 480, OWN_RATE["pace"], (2, 16), _corrections(*_FOUR), UNCORRECTED, range(100, 105))
"""At the rate with which this advisor learns. Its policy moves little in 16 updates."""
FAST = Design("fast", 240, 1e-3, (8,), _corrections(UNCORRECTED, "decoupled", "m2po"), UNCORRECTED, range(100, 103))
"""At ten times the rate, so that old tokens are farther from the policy in training."""
GUARDS = Design(
    "guards",
    480,
    OWN_RATE["pace"],
    (2,),
    {
        "all guards": (),
        "no warm-up": ("--set=learner.warmup=0",),
        **{f"no {limit}": (f"--set=learner.{limit}=null",) for limit in ("max_move", "min_move_ess", "max_sure_move")},
        "no rollback": ("--set=learner.rollback=false",),
    },
    "all guards",
    range(100, 105),
    limits=(),
)
"""The default limits of a step, and each guard left out alone."""
WARMUP = Design(
    "warmup",
    1000,
    OWN_RATE["pace"],
    (2,),
    {name: GUARDS.arms[name] for name in ("all guards", "no warm-up")},
    "all guards",
    range(105, 115),
    limits=(),
)
"""The arm that GUARDS told apart, on fresh seeds and for as long as the verdicts on learning: on this testbed a higher
rate is ahead after 480 candidates and behind after 1,000 (`plan.RATE`)."""
DESIGNS = {design.name: design for design in (USUAL, FAST, GUARDS, WARMUP)}


def trials(design: Design) -> Sequence[Trial]:
    """All runs, those of one seed together. USUAL has arms without a lag too."""
    wanted: list[Trial] = []
    for seed in design.seeds:
        wanted += [Trial(design, lag, arm, seed) for lag in design.lags for arm in design.arms]
        if design is USUAL:
            wanted += [Trial(design, 0, arm, seed) for arm in (FRESH, STILL)]
    return wanted


def arguments(trial: Trial) -> Arguments:
    """The arguments of `pace run`."""
    design = trial.design
    rate, own = (STILL_RATE, ()) if trial.arm == STILL else (design.rate, design.arms[trial.arm])
    learner = ("--objective", "pace", *design.limits, *RELATIVE, f"--set=learner.tiny_learning_rate={rate:g}", *own)
    numbers = ("--seed", str(trial.seed), f"--set=evaluation.seed={trial.seed}")
    length = ("--candidates", str(design.candidates))
    return ("columnar", *COMMON, *learner, "--async", "--max-staleness", str(trial.lag), *numbers, *length)
