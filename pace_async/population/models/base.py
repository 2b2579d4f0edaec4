"""Shared by all tables: types, names of constraints, allowed values of columns."""

from typing import Any, get_args

from sqlalchemy import CheckConstraint, Double, ForeignKeyConstraint, LargeBinary, MetaData
from sqlalchemy.orm import DeclarativeBase

from pace_async.events import Outcome
from pace_async.population.columns import CleanJson, CleanText

LEASE_STATES = ("open", "trained", "skipped", "aborted", "expired")
LEASE_STAGES = ("admitted", "advised", "complete", "shipped")
GROUP_STATES = ("shipped", "trained", "skipped")
RUN_STATES = ("running", "draining", "done", "stopped_by_budget", "interrupted", "gave_up", "crashed")
ATTEMPT_OUTCOMES = tuple(word for word in get_args(Outcome) if word != "below_threshold")
PRACTICE_OUTCOMES = tuple(word for word in ATTEMPT_OUTCOMES if word != "pruned")
SCORED_OUTCOMES = tuple(word for word in get_args(Outcome) if word != "infrastructure_error")
STAGE_OUTCOMES = tuple(word for word in SCORED_OUTCOMES if word not in ("below_threshold", "pruned"))
"""Outcomes of one evaluation that nothing stops. A cascade's combined outcome belongs to the candidate."""


def one_of(column: str, words: tuple[str, ...]) -> CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words)
    return CheckConstraint(f"{column} IN ({listed})", name=f"{column}_known")


def finite(column: str) -> CheckConstraint:
    """Between the bounds of `outside.LARGEST`, which is checked where a number comes in."""
    return CheckConstraint(f"{column} > -1e308 AND {column} < 1e308", name=f"{column}_finite")


def refers(columns: tuple[str, ...], table: str, targets: tuple[str, ...]) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(("run_id", *columns), [f"{table}.{name}" for name in ("run_id", *targets)])


class Base(DeclarativeBase):
    """Types and constraint names shared by all tables."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012  (SQLAlchemy reads it from the class)
        str: CleanText,
        float: Double,
        bytes: LargeBinary,
        dict[str, Any]: CleanJson,
    }
