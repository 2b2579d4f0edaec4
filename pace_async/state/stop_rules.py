"""The rules that end a run, one entry each: `stop.NAME` sets its limit, and NAME is the reason in the run's row.

Pure. A rule says how far a run has come and what of that a person reads. Screens, refusals and the runtime go through
`STOP_RULES`, so that another rule is a setting, an entry here and, where it tests something new, a value of
`StopValues`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pace_async.config import StopConfig
from pace_async.fitness import Fitness
from pace_async.frozen_values import fast_init


@fast_init
@dataclass(frozen=True, slots=True)
class StopValues:
    """What stop rules test. `groups` counts skipped ones too. Of this process, `since_best` are the candidates
    that ended after it saw the best score for the first time, `minutes_since_best` its minutes since then, and
    `untrained` the last groups, in a row, that trained nothing and held no candidate with a score."""

    candidates: int
    groups: int
    minutes: float
    spend_usd: float
    best: float | None
    since_best: int = 0
    minutes_since_best: float = 0.0
    untrained: int = 0


@dataclass(frozen=True, slots=True)
class StopRule:
    """`done`: how far the run is, in the unit of the limit; None if that cannot be said yet. `unit` is the noun for
    counted things, or one of the three that are written in their own way. `planned` is what a dry run says, empty for
    nothing. `stands`: a clause for a resume that would end at once, with `{done}` and `{limit}`, and `raised` is the
    flag that lets it go on; both are empty for what each process counts from zero. `because`: what the reason alone
    does not tell. `whole`: groups that are complete when the last candidate ends are still trained. `last_page`: a
    page of notes that is due is still written. `shown`: the screen shows how far it is."""

    name: str
    done: Callable[[StopValues], float | None]
    unit: str
    planned: str
    stands: str = ""
    raised: str = ""
    because: str = ""
    whole: bool = False
    last_page: bool = False
    shown: bool = True

    def met(self, limit: float, values: StopValues, fitness: Fitness) -> bool:
        done = self.done(values)
        if done is None:
            return False
        return fitness.reaches(done, limit) if self.unit == "score" else done >= limit


_RULES = (
    StopRule(
        "target",
        lambda values: values.best,
        "score",
        "a score at least as good as {:g}",
        stands="the target {limit} is reached",
        raised="--target SCORE",
        whole=True,
        last_page=True,
    ),
    StopRule(
        "budget",
        lambda values: values.spend_usd,
        "USD",
        "{:g} USD",
        stands="{done:.4f} USD are spent",
        raised="--budget USD",
        whole=True,
    ),
    StopRule(
        "candidates",
        lambda values: values.candidates,
        "candidate",
        "{} candidates",
        stands="{done} candidates are evaluated",
        raised="--candidates N",
        whole=True,
        last_page=True,
    ),
    StopRule(
        "updates",
        lambda values: values.groups,
        "update",
        "{} groups",
        stands="{done} groups are consumed",
        raised="--updates N",
        last_page=True,
    ),
    StopRule("minutes", lambda values: values.minutes, "minute", "{:g} minutes"),
    StopRule(
        "patience",
        lambda values: values.since_best,
        "candidate",
        "{} candidates without a new best",
        because="so many candidates in a row were no new best",
        shown=False,
        whole=True,
        last_page=True,
    ),
    StopRule(
        "patience_minutes",
        lambda values: values.minutes_since_best,
        "minute",
        "{:g} minutes without a new best",
        because="for so long no candidate was a new best",
        shown=False,
        whole=True,
        last_page=True,
    ),
    StopRule(
        "untrained",
        lambda values: values.untrained,
        "group",
        "",
        because="the last groups trained nothing and held no candidate with a score",
        shown=False,
    ),
)

STOP_RULES: Mapping[str, StopRule] = {rule.name: rule for rule in _RULES}
"""By name. Of several that are met, the first gives the reason."""


def limits_of(stop: StopConfig) -> dict[StopRule, float]:
    """The rules that are set, with their limits."""
    limits = {rule: getattr(stop, rule.name) for rule in _RULES}
    return {rule: limit for rule, limit in limits.items() if limit is not None}


def reason_to_stop(stop: StopConfig, values: StopValues, fitness: Fitness) -> str | None:
    """The name of the first stop rule that is met, or None."""
    return next((rule.name for rule, limit in limits_of(stop).items() if rule.met(limit, values, fitness)), None)
