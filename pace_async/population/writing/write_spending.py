"""Writes rows about money: the chosen models, reservations, calls with their cost and result, checks. Also the settings
that a resume changed.

Invariant: a reservation is closed once, by a call of its own lease and model.
"""

from sqlalchemy import bindparam, func, select, update

from pace_async.events import (
    ImplementerCalled,
    ImplementerChecked,
    ImplementerChosen,
    ImplementerReserved,
    SettingChanged,
    TryEvaluated,
)
from pace_async.population.fields import CHOICE_FIELDS, NOTES_FIELDS, row_of
from pace_async.population.models import (
    ImplementerCallRow,
    ImplementerCheckRow,
    ImplementerChoiceRow,
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


def implementer_chosen(scope: Scope, fact: ImplementerChosen) -> None:
    """Once for a lease."""
    scope.add(ImplementerChoiceRow, row_of(fact, CHOICE_FIELDS))


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
            "role": fact.role,
        },
    )


def implementer_called(scope: Scope, fact: ImplementerCalled) -> None:
    """Numbered within its lease. The cost is written in every state of the lease, and an answer to keep with it."""
    ordinal = scope.value(NEXT_CALL, of_lease=fact.lease)
    scope.add(
        ImplementerCallRow,
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
            "role": fact.role,
        },
    )
    if (tried := fact.tried) is not None:
        scope.add(
            ImplementerTryRow,
            {
                "lease": fact.lease,
                "number": tried.number,
                "ordinal": ordinal,
                "outcome": tried.outcome,
                "detail": tried.detail,
                "program": tried.program,
                "answer": tried.answer,
            },
        )
    if fact.answered is not None:
        advisor_answered(scope, fact.lease, fact.answered)
    if fact.notes is not None:
        scope.add(NotesPageRow, {"lease": fact.lease, "ordinal": ordinal, **row_of(fact.notes, NOTES_FIELDS)})
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
    scope.add(
        ImplementerCheckRow,
        {
            "number": scope.value(NEXT_CHECK),
            "model": fact.model,
            "prompt_tokens": fact.prompt_tokens,
            "completion_tokens": fact.completion_tokens,
            "cost_usd": fact.cost_usd,
            "seconds": fact.seconds,
            "at": fact.at,
            "role": fact.role,
        },
    )


def setting_changed(scope: Scope, fact: SettingChanged) -> None:
    """One more change. A raised bound applies to the run from now on: later leases have later deadlines."""
    number = scope.value(NEXT_CHANGE)
    row = {"number": number, "key": fact.key, "before": fact.before, "after": fact.after, "at": fact.at}
    scope.add(SettingChangeRow, row)
    if fact.key == "staleness.max_staleness":
        scope.one(RAISE_BOUND, lambda: "there is no such run", bound=int(fact.after))
