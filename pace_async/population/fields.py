"""Fields of facts with a column of the same name. Writing and reading both use these lists.

A new field of such a fact needs only its column.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any

from pace_async.events import (
    CascadeScore,
    Claimed,
    Evaluated,
    EvaluationAttempted,
    FreshScore,
    ImplementerChosen,
    IslandActed,
    NotesPage,
    Practised,
    RunHeader,
)


def _names(fact: type, *, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    return tuple(field.name for field in fields(fact) if field.name not in without)


def row_of(fact: object, names: tuple[str, ...]) -> dict[str, Any]:
    """The values of these fields of a fact, by name."""
    return dict(zip(names, _getter(names)(fact), strict=True))


@cache
def _getter(names: tuple[str, ...]) -> Callable[[object], tuple[Any, ...]]:
    return attrgetter(*names)


HEADER_FIELDS = _names(RunHeader)
ACTION_FIELDS = _names(IslandActed, without=("ideas",))
CHOICE_FIELDS = _names(ImplementerChosen)
NOTES_FIELDS = _names(NotesPage)
ATTEMPT_FIELDS = _names(EvaluationAttempted)
PRACTICE_FIELDS = _names(Practised)
CASCADE_FIELDS = _names(CascadeScore)
CLAIM_FIELDS = _names(Claimed, without=("tries", "queue_seconds"))
FRESH_FIELDS = _names(FreshScore)
EVALUATED_FIELDS = _names(Evaluated, without=("lease", "island", "fresh", "gained", "deviation"))
NAMED_METRICS = ("loss", "entropy", "grad_norm", "clip_fraction", "ess", "k3", "mean_ratio", "step_scale")
"""The learner's figures with a column of their own. The others are in `metrics`."""
