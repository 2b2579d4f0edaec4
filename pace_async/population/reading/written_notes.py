"""Reads the pages of notes, each with the call that wrote it."""

from dataclasses import dataclass

from sqlalchemy import Connection, and_, false, select

from pace_async.events import NotesPage
from pace_async.population.fields import fact_of
from pace_async.population.models import ImplementerCallRow, NotesPageRow
from pace_async.population.reading.read_spending import cost_nothing, unpriced_of


@dataclass(frozen=True, slots=True)
class WrittenNotes:
    """A page, the newest candidate that it knows, the model that wrote it, and what that cost, None if its price is
    not known. Seconds since the epoch."""

    page: NotesPage
    newest: int
    model: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    at: float


def notes_of_run(connection: Connection, run_id: int) -> tuple[WrittenNotes, ...]:
    """All pages, the oldest first."""
    page, call = NotesPageRow, ImplementerCallRow
    same_call = and_(call.run_id == page.run_id, call.lease == page.lease, call.ordinal == page.ordinal)
    unknown = cost_nothing(call) if "notes" in unpriced_of(connection, run_id) else false()
    cost = (call.model, call.prompt_tokens, call.completion_tokens, call.cost_usd, unknown.label("unknown"), call.at)
    rows = connection.execute(
        select(page, *cost).join(call, same_call).where(page.run_id == run_id).order_by(page.number)
    )
    return tuple(
        WrittenNotes(
            fact_of(NotesPage, NotesPageRow, row),
            row.lease,
            row.model,
            row.prompt_tokens,
            row.completion_tokens,
            None if row.unknown else row.cost_usd,
            row.at,
        )
        for row in rows
    )
