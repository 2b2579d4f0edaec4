"""Writes rows about money: the chosen models, reservations, calls with their cost and result, checks. Also the settings
that a resume changed.

Invariant: a reservation is closed once, by a call of its own lease and model.
"""

from sqlalchemy import bindparam, func, select, update

from pace_async.events import (
    ImplementerCalled,
    ImplementerChecked,
    SettingChanged,
    TryEvaluated,
)
from pace_async.population.models import (
    IdeasLeftRow,
    ImplementerCallRow,
    ImplementerCheckRow,
    ImplementerTryRow,
    NotesPageRow,
    ReservationRow,
    RunRow,
    SettingChangeRow,
)
from pace_async.population.prepared import Prepared
from pace_async.population.writing.scope import OF_LEASE, OF_RUN, Scope, next_number
from pace_async.population.writing.write_rollouts import advisor_answered

NEXT_CALL = Prepared(
    select(func.coalesce(func.max(ImplementerCallRow.ordinal), 0) + 1).where(
        ImplementerCallRow.run_id == OF_RUN, ImplementerCallRow.lease == OF_LEASE
    )
)
NOT_EVALUATED: dict[str, None] = dict.fromkeys(("evaluation", "evaluation_detail", "evaluation_feedback"))
"""Of a try that was just made."""
NEXT_CHECK, NEXT_CHANGE = next_number(ImplementerCheckRow), next_number(SettingChangeRow)
CLOSE_RESERVATION = Prepared(
    update(ReservationRow)
    .where(
        ReservationRow.run_id == OF_RUN,
        ReservationRow.number == bindparam("of_number"),
        ReservationRow.lease == OF_LEASE,
        ReservationRow.model == bindparam("of_model"),
        ReservationRow.ordinal.is_(None),
    )
    .values(ordinal=bindparam("call"))
)
EVALUATE_TRY = Prepared(
    update(ImplementerTryRow)
    .where(
        ImplementerTryRow.run_id == OF_RUN,
        ImplementerTryRow.lease == OF_LEASE,
        ImplementerTryRow.number == bindparam("of_number"),
        ImplementerTryRow.evaluation.is_(None),
    )
    .values(
        evaluation=bindparam("what"),
        evaluation_detail=bindparam("why"),
        evaluation_seconds=bindparam("how_long"),
        evaluation_feedback=bindparam("said"),
    )
)
RAISE_BOUND = Prepared(update(RunRow).where(RunRow.run_id == OF_RUN).values(max_staleness=bindparam("bound")))


def implementer_called(scope: Scope, fact: ImplementerCalled) -> None:
    """Numbered within its lease. The cost is written in every state of the lease, and an answer to keep with it."""
    ordinal = scope.value(NEXT_CALL, of_lease=fact.lease)
    scope.record(ImplementerCallRow, fact, ordinal=ordinal)
    if fact.tried is not None:
        place = {"lease": fact.lease, "ordinal": ordinal}
        scope.record(ImplementerTryRow, fact.tried, **place, **NOT_EVALUATED)
    if fact.answered is not None:
        advisor_answered(scope, fact.lease, fact.answered)
    if fact.notes is not None:
        scope.record(NotesPageRow, fact.notes, lease=fact.lease, ordinal=ordinal)
    if (left := fact.left) is not None:
        for idea, text in left.ideas:
            scope.record(IdeasLeftRow, left, lease=fact.lease, ordinal=ordinal, idea=idea, text=text or None)
    if fact.reservation is None:
        return
    scope.one(
        CLOSE_RESERVATION,
        lambda: f"reservation {fact.reservation} of lease {fact.lease} was never made, or is closed already",
        of_number=fact.reservation,
        of_lease=fact.lease,
        of_model=fact.model,
        call=ordinal,
    )


def try_evaluated(scope: Scope, fact: TryEvaluated) -> None:
    """Once for a try."""
    scope.one(
        EVALUATE_TRY,
        lambda: f"try {fact.number} of lease {fact.lease} was never made, or is evaluated already",
        of_lease=fact.lease,
        of_number=fact.number,
        what=fact.outcome,
        why=fact.detail,
        how_long=fact.seconds,
        said=fact.feedback,
    )


def implementer_checked(scope: Scope, fact: ImplementerChecked) -> None:
    """One more check."""
    scope.record(ImplementerCheckRow, fact, number=scope.value(NEXT_CHECK))


def setting_changed(scope: Scope, fact: SettingChanged) -> None:
    """One more change. A raised bound applies to the run from now on: later leases have later deadlines."""
    scope.record(SettingChangeRow, fact, number=scope.value(NEXT_CHANGE))
    if fact.key == "staleness.max_staleness":
        scope.one(RAISE_BOUND, lambda: "there is no such run", bound=int(fact.after))
