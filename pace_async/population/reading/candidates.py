"""The one condition that joins the rows of a rollout, and the one select that joins complete rollouts with their lease,
experiment and idea.

A reader of candidates chooses columns here and adds its own condition and order.
"""

from collections.abc import Collection
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, and_, case, func, select

from pace_async.events import Role
from pace_async.population.models import CandidateRow, ExperimentRow, IdeaRow, ImplementerCallRow, LeaseRow, ProposalRow
from pace_async.population.reading.read_spending import cost_nothing


def same_rollout(one: Any, other: Any) -> ColumnElement[bool]:
    """Whether rows of two tables with these columns are of one lease of one run."""
    return and_(one.run_id == other.run_id, one.lease == other.lease)


def cost_usd(unpriced: Collection[Role] = ()) -> ColumnElement[float | None]:
    """The cost of a candidate, failed calls included. Notes are written for the whole run. NULL if calls of the
    `unpriced` roles were counted with nothing."""
    unknown = and_(ImplementerCallRow.role.in_(unpriced), cost_nothing(ImplementerCallRow))
    summed = func.coalesce(func.sum(ImplementerCallRow.cost_usd), 0.0)
    cost = case((func.sum(case((unknown, 1), else_=0)) > 0, None), else_=summed) if unpriced else summed
    return (
        select(cost)
        .where(same_rollout(ImplementerCallRow, CandidateRow), ImplementerCallRow.role != "notes")
        .correlate(CandidateRow)
        .scalar_subquery()
    )


OWN_IDEA: ColumnElement[str] = (
    select(func.min(ProposalRow.description))
    .where(same_rollout(ProposalRow, ExperimentRow), ProposalRow.idea == ExperimentRow.idea)
    .correlate(ExperimentRow)
    .scalar_subquery()
)
"""The idea of an experiment, NULL if another rollout proposed it."""

BANNED = "banned"
OUTCOME: ColumnElement[str] = case(
    (and_(CandidateRow.score.is_not(None), CandidateRow.merit.is_(None)), BANNED), else_=CandidateRow.outcome
)
"""The outcome as a person is shown it: a banned candidate has a score and no rank."""

_ELSEWHERE: dict[str, Any] = {
    "outcome": OUTCOME,
    "lease_state": LeaseRow.state,
    "lease_stage": LeaseRow.stage,
    "admitted_version": LeaseRow.admitted_version,
    "policy_version": LeaseRow.oldest_version,
    "group_number": LeaseRow.group_number,
    "update_number": LeaseRow.trained_by,
    "staleness": LeaseRow.staleness,
    "advantage": LeaseRow.advantage,
    "idea_number": ExperimentRow.idea,
    "idea": IdeaRow.description,
    "experiment": ExperimentRow.description,
}
"""Columns outside the candidate's own row, by the names that commands print."""


def columns(*names: str, unpriced: Collection[Role] = ()) -> list[Any]:
    """Columns for `candidates_with_experiments`, under these names. `unpriced`: see `cost_usd`."""
    elsewhere = {**_ELSEWHERE, "cost_usd": cost_usd(unpriced)}
    return [(elsewhere[name] if name in elsewhere else getattr(CandidateRow, name)).label(name) for name in names]


def candidates_with_experiments(*selected: Any) -> Select[Any]:
    """Every candidate of every run. The task's own program has no lease, experiment or idea. The idea is NULL for an
    experiment without one."""
    idea = and_(
        IdeaRow.run_id == ExperimentRow.run_id,
        IdeaRow.island == ExperimentRow.island,
        IdeaRow.idea == ExperimentRow.idea,
    )
    chosen = cast("Select[Any]", select(*selected))
    return (
        chosen.select_from(CandidateRow)
        .outerjoin(LeaseRow, same_rollout(LeaseRow, CandidateRow))
        .outerjoin(ExperimentRow, same_rollout(ExperimentRow, CandidateRow))
        .outerjoin(IdeaRow, idea)
    )
