"""The one select that joins complete rollouts with their lease, experiment and idea.

A reader of candidates chooses columns here and adds its own condition and order.
"""

from typing import Any, cast

from sqlalchemy import ColumnElement, Select, and_, func, select

from pace_async.population.models import CandidateRow, ExperimentRow, IdeaRow, ImplementerCallRow, LeaseRow

COST_USD: ColumnElement[float] = (
    select(func.coalesce(func.sum(ImplementerCallRow.cost_usd), 0.0))
    .where(ImplementerCallRow.run_id == CandidateRow.run_id, ImplementerCallRow.lease == CandidateRow.lease)
    .correlate(CandidateRow)
    .scalar_subquery()
)
"""The cost of a candidate, failed calls included."""

_ELSEWHERE: dict[str, Any] = {
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
    "cost_usd": COST_USD,
}
"""Columns outside the candidate's own row, by the names that commands print."""


def columns(*names: str) -> list[Any]:
    """Columns for `candidates_with_experiments`, under these names."""
    return [(_ELSEWHERE[name] if name in _ELSEWHERE else getattr(CandidateRow, name)).label(name) for name in names]


def candidates_with_experiments(*selected: Any) -> Select[Any]:
    """Every candidate of every run. The task's own program has no lease, experiment or idea. The idea is NULL for an
    experiment without one."""
    lease = and_(LeaseRow.run_id == CandidateRow.run_id, LeaseRow.lease == CandidateRow.lease)
    experiment = and_(ExperimentRow.run_id == CandidateRow.run_id, ExperimentRow.lease == CandidateRow.lease)
    idea = and_(
        IdeaRow.run_id == ExperimentRow.run_id,
        IdeaRow.island == ExperimentRow.island,
        IdeaRow.idea == ExperimentRow.idea,
    )
    chosen = cast("Select[Any]", select(*selected))
    return (
        chosen.select_from(CandidateRow)
        .outerjoin(LeaseRow, lease)
        .outerjoin(ExperimentRow, experiment)
        .outerjoin(IdeaRow, idea)
    )
