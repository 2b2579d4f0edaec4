"""Objectives of the learner (`--objective`) and schedules of alpha (`learner.alpha_schedule`).

The code of an objective is a function of one group: `objectives.base.ObjectiveFunction`. Other packages add theirs by
an entry point of the group `pace.objectives`, which names the function or an `Objective` of this file. The code of a
schedule is a function of the groups so far: `objectives.schedule.ScheduleFunction`.
"""

from dataclasses import dataclass

from pace_async.registry.base import Entry, Registry


@dataclass(frozen=True, slots=True)
class Objective(Entry):
    """`trains`: a learner runs. `uses_alpha`: the schedule of alpha matters, so displays show it. `kl_penalty` is the
    default of `learner.kl_penalty`."""

    trains: bool = True
    uses_alpha: bool = False
    kl_penalty: float = 0.0


@dataclass(frozen=True, slots=True)
class AlphaSchedule(Entry):
    """`restandardises`: the mixture of the branches is standardised once more."""

    restandardises: bool = False


OBJECTIVES = Registry(
    "objective",
    Objective(
        "pace",
        "group-relative credit early, best-of-k credit late",
        "pace_async.objectives.phase_adaptive:phase_adaptive",
        uses_alpha=True,
    ),
    Objective("grpo", "z-score within the group", "pace_async.objectives.grpo:grpo"),
    Objective(
        "entropic",
        "exponential weights at a temperature set by divergence",
        "pace_async.objectives.entropic:entropic",
        kl_penalty=0.1,  # as in the code of its authors
    ),
    Objective("maxk", "contribution to the best of k", "pace_async.objectives.maxk:maxk"),
    Objective("none", "no training", trains=False),
    group="pace.objectives",
)

ALPHA_SCHEDULES = Registry(
    "alpha schedule",
    AlphaSchedule("linear", "from 0 to 1 over the horizon, as in the paper", "pace_async.objectives.schedule:linear"),
    AlphaSchedule(
        "code",
        "to 0.8 over the horizon, the mixture standardised once more, as in the authors' code",
        "pace_async.objectives.schedule:code",
        restandardises=True,
    ),
    AlphaSchedule("fixed", "learner.alpha_start throughout, a control", "pace_async.objectives.schedule:fixed"),
    AlphaSchedule("reversed", "from 1 to 0 over the horizon, a control", "pace_async.objectives.schedule:backwards"),
    AlphaSchedule("compression", "the measured compression of rewards", "pace_async.objectives.schedule:compression"),
)

_UNKNOWN = Objective("", "an objective that is not installed")


def objective_of(name: str) -> Objective:
    """The entry for a recorded name. An objective that is not installed here counts as one that trains without alpha,
    so that its run can still be read."""
    return OBJECTIVES.get(name, _UNKNOWN)


def trains(name: str) -> bool:
    """Whether a run with this objective has a learner."""
    return objective_of(name).trains
