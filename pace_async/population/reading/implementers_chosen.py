"""Reads the implementers chosen for rollouts, their cost and their results."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import cast

from sqlalchemy import Connection, and_, select
from sqlalchemy.orm import aliased

from pace_async.events import ImplementerChosen
from pace_async.population.fields import fact_of
from pace_async.population.models import CandidateRow, ImplementerCallRow, ImplementerChoiceRow, LeaseRow
from pace_async.registry.implementers import names_in
from pace_async.search.bandit import Result


def choices_of(connection: Connection, run_id: int, leases: Collection[int] | None) -> dict[int, ImplementerChosen]:
    """The choices by lease, without leases that have none. All choices if `leases` is None."""
    statement = select(ImplementerChoiceRow).where(ImplementerChoiceRow.run_id == run_id)
    if leases is not None:
        statement = statement.where(ImplementerChoiceRow.lease.in_(leases))
    rows = connection.execute(statement)
    return {row.lease: fact_of(ImplementerChosen, ImplementerChoiceRow, row) for row in rows}


def paid_of(connection: Connection, run_id: int, leases: Collection[int] | None) -> dict[int, dict[str, float]]:
    """USD paid to each implementer for a lease, in the order of its calls. For all leases if `leases` is None."""
    statement = select(ImplementerCallRow.lease, ImplementerCallRow.model, ImplementerCallRow.cost_usd).where(
        ImplementerCallRow.run_id == run_id, ImplementerCallRow.role == "implementer"
    )
    if leases is not None:
        statement = statement.where(ImplementerCallRow.lease.in_(leases))
    payments: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for row in connection.execute(statement.order_by(ImplementerCallRow.lease, ImplementerCallRow.ordinal)):
        payments[row.lease][row.model] = payments[row.lease].get(row.model, 0.0) + row.cost_usd
    return dict(payments)


def results_of(connection: Connection, run_id: int) -> dict[str, dict[int, Result]]:
    """The results of the choices of complete rollouts, by the state of their lease, then by lease. Rollouts in which
    another model than the chosen one was called too are left out."""
    choice, parent = ImplementerChoiceRow, aliased(CandidateRow)
    rows = connection.execute(
        select(choice, LeaseRow.state, (CandidateRow.merit > parent.merit).label("gained"))
        .join(LeaseRow, and_(LeaseRow.run_id == choice.run_id, LeaseRow.lease == choice.lease))
        .join(CandidateRow, and_(CandidateRow.run_id == choice.run_id, CandidateRow.candidate == choice.lease))
        .join(parent, and_(parent.run_id == CandidateRow.run_id, parent.candidate == CandidateRow.parent))
        .where(choice.run_id == run_id)
        .order_by(choice.lease)
    ).all()
    if not rows:
        return {}
    paid = paid_of(connection, run_id, None)
    results: defaultdict[str, dict[int, Result]] = defaultdict(dict)
    for row in rows:
        usd = paid.get(row.lease, {})
        if all(model == row.model for model in usd):
            result = Result(row.lease, row.kind, row.model, bool(row.gained), usd.get(row.model, 0.0))
            results[row.state][row.lease] = result
    return dict(results)


def tally(
    results: Collection[Result], models: Collection[str] = (), *, unpriced: bool = False
) -> list[dict[str, object]]:
    """kind, model, rollouts, gains and usd, added up over results, by kind and model. In each kind of `results` every
    one of `models` has an entry, with zeros if it was never chosen. `unpriced`: a model with rollouts that cost nothing
    has no known price, so its usd is None."""
    groups: defaultdict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        groups[result.kind, result.model].append(result)
    groups.update({(kind, model): [] for kind, _ in [*groups] for model in models if (kind, model) not in groups})
    return [
        {
            "kind": kind,
            "model": model,
            "rollouts": len(group),
            "gains": sum(result.gained for result in group),
            "usd": None if unpriced and group and not any(result.usd for result in group) else _sum(group),
        }
        for (kind, model), group in sorted(groups.items())
    ]


def _sum(results: Collection[Result]) -> float:
    return sum(result.usd for result in results)


def models_of_bandit(settings: Mapping[str, object], changes: Mapping[str, object]) -> list[str]:
    """The models that a bandit chooses among, by a run's settings and what resumes changed. None without a bandit."""
    own = cast("Mapping[str, object]", settings.get("implementer") or {})
    effective = {**{f"implementer.{key}": value for key, value in own.items()}, **changes}
    if effective.get("implementer.choice") != "bandit":
        return []
    return names_in(str(effective["implementer.model"]))
