"""Objectives of the learner (`--objective`) and schedules of alpha (`learner.alpha_schedule`).

The code of an objective is a function of one group. Other packages add theirs by
an entry point of the group `pace.objectives`, which names the function or an `Objective` of this file. The code of a
schedule is a function of the groups so far.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.objectives import entropic, grpo, maxk, phase_adaptive, schedule
    from pace_async.objectives.base import ObjectiveFunction
    from pace_async.objectives.schedule import ScheduleFunction
else:
    entropic, grpo, maxk, phase_adaptive, schedule = later(
        "pace_async.objectives", "entropic", "grpo", "maxk", "phase_adaptive", "schedule"
    )


@dataclass(frozen=True, slots=True)
class Objective(Entry["ObjectiveFunction"]):
    """`trains`: a learner runs. `uses_alpha`: the schedule of alpha matters, so displays show it. `kl_penalty` is the
    default of `learner.kl_penalty`."""

    trains: bool = True
    uses_alpha: bool = False
    kl_penalty: float = 0.0


@dataclass(frozen=True, slots=True)
class AlphaSchedule(Entry["ScheduleFunction"]):
    """`restandardises`: the mixture of the branches is standardised once more."""

    restandardises: bool = False


OBJECTIVES = Registry(
    "objective",
    Objective(
        "pace",
        "group-relative credit early, best-of-k credit late",
        lambda: phase_adaptive.phase_adaptive,
        uses_alpha=True,
    ),
    Objective("grpo", "z-score within the group", lambda: grpo.grpo),
    Objective(
        "entropic",
        "exponential weights at a temperature set by divergence",
        lambda: entropic.entropic,
        kl_penalty=0.1,  # as in the code of its authors
    ),
    Objective("maxk", "contribution to the best of k", lambda: maxk.maxk),
    Objective("none", "no training", trains=False),
    group="pace.objectives",
)

ALPHA_SCHEDULES = Registry(
    "alpha schedule",
    AlphaSchedule("linear", "from 0 to 1 over the horizon, as in the paper", lambda: schedule.linear),
    AlphaSchedule(
        "code",
        "to 0.8 over the horizon, the mixture standardised once more, as in the authors' code",
        lambda: schedule.code,
        restandardises=True,
    ),
    AlphaSchedule("fixed", "learner.alpha_start throughout, a control", lambda: schedule.fixed),
    AlphaSchedule("reversed", "from 1 to 0 over the horizon, a control", lambda: schedule.backwards),
    AlphaSchedule("compression", "the measured compression of rewards", lambda: schedule.compression),
)

_UNKNOWN = Objective("", "an objective that is not installed")


def objective_of(name: str) -> Objective:
    """The entry for a recorded name. An objective that is not installed here counts as one that trains without alpha,
    so that its run can still be read."""
    return OBJECTIVES.get(name, _UNKNOWN)


def trains(name: str) -> bool:
    """Whether a run with this objective has a learner."""
    return objective_of(name).trains
