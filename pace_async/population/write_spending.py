"""Rows about money: what a call may cost, what it did cost, what the checks cost; and settings that a resume changed.

Invariant: a reservation is closed once, by a call of its own lease and model.
"""

from sqlalchemy import update

from pace_async.events import ImplementerCalled, ImplementerChecked, ImplementerReserved, SettingChanged
from pace_async.population.models import (
    ImplementerCallRow,
    ImplementerCheckRow,
    ReservationRow,
    Run,
    SettingChangeRow,
)
from pace_async.population.scope import Scope


def implementer_reserved(scope: Scope, fact: ImplementerReserved) -> None:
    """Open until a call closes it."""
    scope.add(
        ReservationRow,
        {
            "number": fact.number,
            "lease": fact.lease,
            "model": fact.model,
            "cost_usd": fact.cost_usd,
            "at": fact.at,
        },
    )


def implementer_called(scope: Scope, fact: ImplementerCalled) -> None:
    """Counted within its lease. Money spent is written whatever became of the lease."""
    row = ImplementerCallRow
    ordinal = scope.count_after(row.ordinal, row.run_id == scope.run_id, row.lease == fact.lease)
    scope.add(
        row,
        {
            "lease": fact.lease,
            "ordinal": ordinal,
            "model": fact.model,
            "outcome": fact.outcome,
            "prompt_tokens": fact.prompt_tokens,
            "completion_tokens": fact.completion_tokens,
            "cost_usd": fact.cost_usd,
            "seconds": fact.seconds,
            "at": fact.at,
        },
    )
    if fact.reservation is None:
        return
    scope.one(
        update(ReservationRow)
        .where(
            ReservationRow.run_id == scope.run_id,
            ReservationRow.number == fact.reservation,
            ReservationRow.lease == fact.lease,
            ReservationRow.model == fact.model,
            ReservationRow.ordinal.is_(None),
        )
        .values(ordinal=ordinal),
        lambda: f"reservation {fact.reservation} of lease {fact.lease} was never made, or is closed already",
    )


def implementer_checked(scope: Scope, fact: ImplementerChecked) -> None:
    """One more check."""
    row = ImplementerCheckRow
    scope.add(
        row,
        {
            "number": scope.count_after(row.number, row.run_id == scope.run_id),
            "model": fact.model,
            "prompt_tokens": fact.prompt_tokens,
            "completion_tokens": fact.completion_tokens,
            "cost_usd": fact.cost_usd,
            "seconds": fact.seconds,
            "at": fact.at,
        },
    )


def setting_changed(scope: Scope, fact: SettingChanged) -> None:
    """One more change. A bound that was raised is the run's from here on: later leases have later deadlines."""
    row = SettingChangeRow
    number = scope.count_after(row.number, row.run_id == scope.run_id)
    scope.add(row, {"number": number, "key": fact.key, "before": fact.before, "after": fact.after, "at": fact.at})
    if fact.key == "staleness.max_staleness":
        raised = update(Run).where(Run.run_id == scope.run_id).values(max_staleness=int(fact.after))
        scope.one(raised, lambda: "there is no such run")
