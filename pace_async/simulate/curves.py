"""What simulated evaluations report while they run, so that the rules of `evaluation.prune` can stop them.

Pure. Candidate n reports the same in every simulation, whatever is stopped: the n-th recorded curve, from the first
again when they run out, or a power law (pow3 of Domhan, Springenberg and Hutter 2015, IJCAI) with normal noise:

    value(s) = u_n * (1 - (1 + s) ** -1/2) / (1 - (1 + steps) ** -1/2) + noise * N(0, 1),   u_n uniform in [0, 1]

Steps take equally long. Not a model of a search: the curves of later candidates are no better, unless recorded ones
are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pace_async.evaluate.pruning import Bar, Reports, Rules
from pace_async.events import Curve
from pace_async.fitness import Fitness
from pace_async.search.draws import generator

STEPS, NOISE = 16, 0.02


@dataclass(frozen=True, slots=True)
class Curves:
    """Recorded curves by candidate, the task's own program first, in which a higher value is better. Without any, power
    laws of so many steps. An empty curve reports nothing."""

    seed: int = 0
    recorded: tuple[Curve, ...] = ()
    steps: int = STEPS
    noise: float = NOISE

    def of(self, candidate: int) -> Curve:
        """What the evaluation of a candidate reports if nothing stops it."""
        if self.recorded:
            return self.recorded[candidate % len(self.recorded)]
        draw = generator(self.seed, "curve", candidate)
        final, whole = draw.random(), 1 - (1 + self.steps) ** -0.5
        law = ((step, final * (1 - (1 + step) ** -0.5) / whole) for step in range(1, self.steps + 1))
        return tuple((step, value + draw.gauss(0.0, self.noise)) for step, value in law)

    def reported(self, candidate: int, bar: Bar) -> tuple[Reports, float]:
        """What an evaluation reports until it ends or is stopped, and the share of its seconds that it takes. After the
        last report there is nothing to stop."""
        curve, reports = self.of(candidate), Reports(bar)
        for step, value in curve[:-1]:
            reports.add(step, value)
            if reports.missed is not None:
                return reports, step / curve[-1][0]
        return reports, 1.0


@dataclass(frozen=True, slots=True)
class Pruning:
    """The rule by which a simulated run ends evaluations early, and what they report."""

    rules: Rules
    curves: Curves


def whole_curves(curves: Sequence[tuple[Curve, bool]], fitness: Fitness) -> tuple[tuple[Curve, float], ...]:
    """Recorded curves, of each whether the evaluation ran to a score, as merits, with the share of their steps that was
    run. One that was stopped goes on as the complete one that was nearest to it there. Without a complete one none is
    left."""
    merits = [(tuple((step, fitness.merit(value)) for step, value in curve), whole) for curve, whole in curves]
    complete = [curve for curve, whole in merits if whole and curve]
    if not complete:
        return ()
    return tuple((curve, 1.0) if whole or not curve else _continued(curve, complete) for curve, whole in merits)


def _continued(curve: Curve, complete: Sequence[Curve]) -> tuple[Curve, float]:
    last, value = curve[-1]
    nearest = min(complete, key=lambda other: abs(_at(other, last) - value))
    rest = tuple((step, value + merit - _at(nearest, last)) for step, merit in nearest if step > last)
    return (*curve, *rest), last / max(last, nearest[-1][0])


def _at(curve: Curve, step: int) -> float:
    """The value at a step: the last one up to it, else the first."""
    return next((value for at, value in reversed(curve) if at <= step), curve[0][1])
