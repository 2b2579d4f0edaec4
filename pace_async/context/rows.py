"""A result as models may see it, and the metrics that a table of results has as columns. Pure.

Invariant: of the metrics of a hidden scorer only those are taken that the task lists, and no word that a program wrote
in a scored evaluation unless the task's evaluator hides nothing from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from operator import mul

from pace_async.search.results import ExperimentResult, Results, bare, gain_of
from pace_async.task import TaskSpec

COLUMNS = 6
"""Metrics that a table has as columns."""
SLOW = 0.25
"""Share of the time that an evaluation has."""
REPEATED = frozenset(("score", "combined_score"))
"""Names of metrics that repeat the score."""
SAME = 0.9999
"""A correlation from which on a metric is the score in another unit."""


@dataclass(frozen=True, slots=True)
class Row:
    """A result as shown. `idea` is the sentence of its idea, empty if that is not known. `metrics` are those that
    models may see. `same_as` is the first candidate with exactly the same score, and `same_program` the first one with
    the same program, in words if it is one of the run from which this one started. `over_best` is the gain over the
    best of the candidates with a lower number, None where that is the parent, not known or the score again.
    `over_zero`: the gain is the score again, because the parent scored 0.
    `says_again`: the score of its second evaluation may be told, which has no instances of its own. `doubted`: it may
    not be told, and puts the candidate behind one with a worse score. `slow`: it took much of the time that an
    evaluation has."""

    tested: ExperimentResult
    idea: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    same_as: int | None = None
    same_program: int | str | None = None
    over_best: float | None = None
    over_zero: bool = False
    says_again: bool = False
    doubted: bool = False
    slow: bool = False


def row_of(view: Results, tested: ExperimentResult, spec: TaskSpec, seed: float | None = None) -> Row:
    """A result as it is shown. `seed` is the score of the task's own program."""
    known = view.ideas.get(tested.idea) if tested.idea is not None else None
    return Row(
        as_told(tested, spec),
        bare(known.text) if known is not None else "",
        shown_metrics(tested.metrics, spec),
        same_program=view.same_program(tested),
        over_best=_over_best(view, tested, seed),
        over_zero=bool(tested.gain) and tested.gain == gain_of(view.fitness, tested.score, 0.0),
        says_again=not spec.of_kind.hides_scorer,
        slow=tested.seconds >= SLOW * spec.timeout_s,
    )


def _over_best(view: Results, tested: ExperimentResult, seed: float | None) -> float | None:
    """The gain over the best of the candidates with a lower number, None where it is that over the parent or over 0."""
    before = [score for score in (seed, view.best_before(tested.candidate)) if score is not None]
    gains = [gain for score in before if (gain := gain_of(view.fitness, tested.score, score)) is not None]
    over = min(gains, default=None)
    return None if over in (tested.gain, gain_of(view.fitness, tested.score, 0.0)) else over


def as_told(tested: ExperimentResult, spec: TaskSpec) -> ExperimentResult:
    """The result as a model may see it. A program sees hidden instances, so nothing that it wrote is the cause, unless
    the task's evaluator hides nothing from it and the task allows its words."""
    return tested if spec.feedback or tested.cause == tested.told else replace(tested, cause=tested.told)


def shown_metrics(metrics: Mapping[str, float], spec: TaskSpec) -> Mapping[str, float]:
    """All of a command task, whose programs can read them anyway. Of a hidden scorer the objectives and those that the
    task lists, with fewer digits."""
    hidden = spec.of_kind.hides_scorer
    aims = [aim.metric for aim in spec.aims]
    names, digits = ((*aims, *(name for name in spec.shown_metrics if name not in aims)), 4) if hidden else (metrics, 5)
    return {name: float(f"{metrics[name]:.{digits}g}") for name in names if name in metrics and name not in REPEATED}


def columns_of(rows: Iterable[Row]) -> Mapping[str, float]:
    """The metrics of these rows in their order, each with how much it says of the score: the size of their correlation,
    and nothing if it is the score in another unit. One that every row has with the same value is no column."""
    values = dict[str, list[tuple[float, float | None]]]()
    for row in rows:
        for name, value in row.metrics.items():
            values.setdefault(name, []).append((value, row.tested.score))
    most = max(map(len, values.values()), default=0)
    return {
        name: _relevance(pairs)
        for name, pairs in values.items()
        if most < 2 or len(pairs) < most or len({value for value, _ in pairs}) > 1
    }


def _relevance(pairs: Sequence[tuple[float, float | None]]) -> float:
    """How much a metric says of the score, in [0, 1]."""
    scored = [(value, score) for value, score in pairs if score is not None]
    x, y = (_centred(column) for column in zip(*scored, strict=True)) if len(scored) > 2 else ((), ())
    size = sqrt(sum(a * a for a in x) * sum(b * b for b in y))
    share = abs(sum(map(mul, x, y))) / size if size > 0 else 0.5
    return share if share < SAME else 0.0


def _centred(numbers: Sequence[float]) -> Sequence[float]:
    mean = sum(numbers) / len(numbers)
    return [number - mean for number in numbers]


def most_telling(columns: Mapping[str, float], count: int) -> list[str]:
    """The names of the `count` columns that say most, in the order of the columns."""
    chosen = sorted(columns, key=lambda name: -columns[name])[:count]
    return [name for name in columns if name in chosen]
