"""Whether an evaluation that still runs is hopeless, by what it and earlier ones reported. Pure.

An evaluation reports values at increasing steps: its curve. `bar_of` turns the curves of earlier evaluations into a
bar, the least value that goes on at each step, and `Reports` compares each reported value with it. The two rules are
those of Optuna:

    median   `MedianPruner`: stopped if its best value so far is worse than the median of what the completed evaluations
             before it reported at the same step
    asha     `SuccessiveHalvingPruner` (Li et al. 2020, arXiv:1810.05934): the steps first, first * factor,
             first * factor ** 2 ... are rungs. Stopped at a rung unless its value there is among the best 1/factor of
             all that came so far, the stopped ones too, and always at least the best one goes on

Invariants: the bar is fixed when the evaluation begins, so that neither the speed of another evaluation nor of this
process decides. What is reported is data: whatever it is, it gives no score. At most MOST_POINTS lines are read as
reports. A line is one if it is a JSON object of `step`, a whole number above the last one, and `value`, a finite
number. Any other line is passed over.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from pace_async.config import EvaluationConfig
from pace_async.evaluate.scorer.strict_json import Invalid, parse
from pace_async.events import Curve
from pace_async.fitness import Fitness
from pace_async.outside import MOST_COUNTED, is_bounded

MOST_POINTS = 200
LONGEST_LINE = 256
"""Bytes of a line that is read as a report."""

Rule = Literal["median", "asha"]


@dataclass(frozen=True, slots=True)
class Rules:
    """Which rule stops evaluations. None is stopped before the step `warmup`, nor at a step or rung that fewer than
    `least` earlier ones have reached, nor for being worse by at most `margin`, in the unit of scores. `factor` is of
    asha alone."""

    rule: Rule
    warmup: int = 0
    least: int = 5
    margin: float = 0.0
    factor: int = 4


@dataclass(frozen=True, slots=True)
class Bar:
    """The least merit that goes on at each step or rung, in their order."""

    rule: Rule
    fitness: Fitness
    least: tuple[tuple[int, float], ...] = ()

    def missed(self, curve: Curve) -> float | None:
        """The value that the newest point of the curve, its last, would have needed. None if it goes on."""
        merits = [self.fitness.merit(value) for _, value in curve]
        newest, last = curve[-1][0], curve[-2][0] if len(curve) > 1 else -1
        if self.rule == "median":
            reached, due = max(merits), [least for step, least in self.least if step == newest]
        else:
            reached, due = merits[-1], [least for rung, least in self.least if last < rung <= newest]
        needed = max(due, default=reached)
        return self.fitness.merit(needed) if reached < needed else None


def rules_of(evaluation: EvaluationConfig) -> Rules | None:
    """The rules of a run, None if no evaluation ends early."""
    if evaluation.prune == "none":
        return None
    return Rules(
        evaluation.prune,
        evaluation.prune_warmup,
        evaluation.prune_least,
        evaluation.prune_margin,
        evaluation.prune_factor,
    )


def bar_of(rules: Rules, earlier: Sequence[tuple[Curve, bool]], fitness: Fitness) -> Bar:
    """The bar for an evaluation that begins after these. Each is a curve, and whether the evaluation ran to a score."""
    values = dict[int, list[float]]()
    for curve, complete in earlier:
        points = _at_rungs(curve, rules) if rules.rule == "asha" else curve if complete else ()
        for step, value in points:
            values.setdefault(step, []).append(fitness.merit(value))
    due = {step: merits for step, merits in values.items() if step >= rules.warmup and len(merits) >= rules.least}
    least = {
        step: statistics.median(merits) if rules.rule == "median" else _promoted(merits, rules.factor)
        for step, merits in due.items()
    }
    return Bar(rules.rule, fitness, tuple(sorted((step, merit - rules.margin) for step, merit in least.items())))


def _at_rungs(curve: Curve, rules: Rules) -> Iterator[tuple[int, float]]:
    """Each rung that a curve has reached, with the first value from there on."""
    rung = max(1, rules.warmup)
    for step, value in curve:
        while rung <= step:
            yield rung, value
            rung *= rules.factor


def _promoted(merits: Sequence[float], factor: int) -> float:
    """The least merit among the best 1/factor of these and one more."""
    return sorted(merits, reverse=True)[max(1, (len(merits) + 1) // factor) - 1]


@dataclass(slots=True)
class Reports:
    """What one evaluation has reported so far. `missed` is the value that it would have needed, None while it goes
    on."""

    bar: Bar
    curve: Curve = ()
    missed: float | None = None
    _read: int = 0
    _line: bytearray = field(default_factory=bytearray)

    def hear(self, data: bytes) -> None:
        """The next bytes of the evaluator's standard output."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self.missed is not None or self._read >= MOST_POINTS:
                return
            self._hear_line(bytes(self._line) + line)
            self._line.clear()
        self._line += rest[: LONGEST_LINE + 1 - len(self._line)]

    def add(self, step: int, value: float) -> None:
        """A report. Passed over unless its step is above the last one and its value is finite."""
        if is_bounded(value) and (self.curve[-1][0] if self.curve else -1) < step <= MOST_COUNTED:
            self.curve = (*self.curve, (step, value))
            self.missed = self.bar.missed(self.curve)

    def _hear_line(self, line: bytes) -> None:
        if len(line) > LONGEST_LINE or not line.startswith(b"{"):
            return
        self._read += 1
        try:
            report = cast("dict[str, object]", parse(line))
        except Invalid:
            return
        step, value = report.get("step"), report.get("value")
        if len(report) == 2 and type(step) is int and isinstance(value, int | float) and not isinstance(value, bool):
            self.add(step, float(value))


def in_words(curve: Curve, missed: float) -> str:
    """Why an evaluation was stopped, as people and models read it."""
    step, value = curve[-1]
    return f"stopped at step {step} with {value:.6g}, where earlier programs had {missed:.6g}"
