"""Which implementer makes the next candidate: Thompson sampling of gain per cost, separately for each kind of
experiment.

A rollout gains if its program scores better than its parent. For a model m and a kind k, with s gains in n rollouts of
that kind and S in N of the other kinds:

    rate   θ ~ Beta(P·p + s, P·(1 − p) + n − s),  p = (1 + S) / (2 + N),  P = 2     results of other kinds are a prior
    cost   c = (C + c̄) / (n + N + 1)             C: USD of all its rollouts, c̄: what one of any model costs on average
    index  θ / (c + c₀)^w,  c₀ = a quarter of the mean c of the models

and the model with the highest index is chosen. w is `implementer.cost_weight`: 1 is gain per USD, 0 ignores the cost.
c₀ stands for the other costs of a rollout, so that a free model is not infinitely good. If nothing costs anything, only
the rates count. The latest WINDOW rollouts count, because gains become rarer as a search goes on. So a model that was
not called for a long time is tried again.

Invariant: the choice depends on the set of results, the kind and the draw, not on the order in which results came in.
Worked example: two models, w = 1, kind `tuning`. a gained in 6 of 10 rollouts at 0.01 USD, b in 6 of 10 at 0.03 USD.
Then c̄ = 0.02, so c = (0.1 + 0.02) / 11 = 0.0109 and 0.0291, and c₀ = 0.005. With equal samples θ the index of a is 2.1
times that of b.

The kind of an experiment, as far as it may matter to the implementer. Pure.

    tuning       a short sentence that names a value: a number, or a word in quotes
    invention    any other, the first experiment on its idea
    refinement   any other, on an idea that was tried before

The kinds are few on purpose: results of a model are counted separately for each kind, and a run has only some hundred
rollouts.
"""

import heapq
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pace_async.events import Kind

PRIOR = 2.0
FLOOR = 0.25
WINDOW = 200


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a rollout whose implementer was chosen: whether it gained, and the cost of all its calls."""

    lease: int
    kind: Kind
    model: str
    gained: bool
    usd: float


@dataclass(frozen=True, slots=True)
class Arm:
    """A chosen model with the reasons: `rate` is its sampled rate of gains, the cost is what a rollout is expected to
    cost, in USD."""

    model: str
    rate: float
    usd: float


def latest(results: Iterable[Result]) -> tuple[Result, ...]:
    """The results that count, oldest lease first."""
    return tuple(reversed(heapq.nlargest(WINDOW, results, key=lambda result: result.lease)))


def choose_arm(
    models: Sequence[str], results: Iterable[Result], kind: Kind, draw: random.Random, cost_weight: float
) -> Arm:
    """The chosen model of at least one. Results of other models are ignored."""
    known = [result for result in latest(results) if result.model in models]
    mean = sum(result.usd for result in known) / len(known) if known else 0.0
    arms: list[Arm] = []
    for model in models:
        own = [result for result in known if result.model == model]
        usd = (sum(result.usd for result in own) + mean) / (len(own) + 1)
        arms.append(Arm(model, _sampled(own, kind, draw), usd))
    floor = FLOOR * sum(arm.usd for arm in arms) / len(arms)
    return max(arms, key=lambda arm: arm.rate / ((arm.usd + floor) or 1.0) ** cost_weight)


def _sampled(own: Sequence[Result], kind: Kind, draw: random.Random) -> float:
    here = [result.gained for result in own if result.kind == kind]
    elsewhere = [result.gained for result in own if result.kind != kind]
    prior = (1.0 + sum(elsewhere)) / (2.0 + len(elsewhere))
    return draw.betavariate(PRIOR * prior + sum(here), PRIOR * (1.0 - prior) + len(here) - sum(here))


SHORT = 16
"""Words; a longer sentence describes more than a value."""
_VALUE = re.compile(r"(?<!\w)[-+]?\d[\d.]*(?:e[-+]?\d+)?(?!\w)|([\"'`])[\w.+-]+\1", re.IGNORECASE)


def kind_of(experiment: str, trials: int) -> Kind:
    """The kind of an experiment on an idea with this many experiments before it."""
    if len(experiment.split()) <= SHORT and _VALUE.search(experiment):
        return "tuning"
    return "refinement" if trials else "invention"
