"""A fact as a row and a row as a fact: a field and a column of the same name have the same value.

A new field of a fact needs only its column.
"""

from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from pace_async.population.models import Base

T = TypeVar("T")

NAMED_METRICS = ("loss", "entropy", "grad_norm", "clip_fraction", "ess", "k3", "mean_ratio", "step_scale")
"""The learner's figures with a column of their own. The others are in `metrics`."""


@cache
def _shared(table: type[Base], fact: type) -> tuple[str, ...]:
    """The names of fields that have a column."""
    return tuple(field.name for field in fields(fact) if field.name in table.__table__.columns)


def row_of(table: type[Base], fact: object, **more: object) -> dict[str, Any]:
    """The columns of a table that a fact has fields for, and `more`, which wins over a field of the same name."""
    return {name: getattr(fact, name) for name in _shared(table, type(fact))} | more


def shared_values(fact: type, table: type[Base], row: Any) -> dict[str, Any]:
    """The fields of this class that a table has columns for, from a row."""
    return {name: getattr(row, name) for name in _shared(table, fact)}


def fact_of(fact: type[T], table: type[Base], row: Any, **more: object) -> T:
    """A value of this class from a row. `more` has the fields without a column, and comes first."""
    return fact(**(shared_values(fact, table, row) | more))
