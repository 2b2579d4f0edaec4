"""Writes what people put into a run: their own insertion into the inbox, and what the run takes in."""

import time
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from pace_async.errors import GaveUp
from pace_async.events import IdeaGiven, LearnedBefore, Steered, Subject
from pace_async.population.connect import Place, engine, in_words, will_pass
from pace_async.population.models import CandidateRow, GivenIdeaRow, InboxRow, SteeringRow
from pace_async.population.writing.scope import Scope

TRIES = 20
"""Of an insertion: two processes may draw the same number at once, and many may wait for one lock."""


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An idea, a program and what it is, or a word about the subject of that number."""

    text: str
    program: str | None = None
    subject: Subject | None = None
    number: int | None = None


def idea_given(scope: Scope, fact: IdeaGiven) -> None:
    """An entry of the inbox that is taken in, once."""
    scope.record(GivenIdeaRow, fact, idea=fact.number, description=fact.text)


def learned_before(scope: Scope, fact: LearnedBefore) -> None:
    """The untried ideas of an earlier run. The rest stands in the journal alone."""
    for idea in fact.given:
        idea_given(scope, idea)


def steered(scope: Scope, fact: Steered) -> None:
    """A word that is taken in, once. A banned candidate has no rank."""
    scope.record(SteeringRow, fact)
    if fact.subject == "candidate":
        row = CandidateRow
        this = row.run_id == scope.run_id, row.candidate == fact.number
        score = scope.connection.execute(select(row.score).where(*this)).scalar_one_or_none()
        merit = None if fact.text == "ban" else scope.merit(score)
        scope.connection.execute(update(row).where(*this).values(merit=merit))


def insert_entry(place: Place, run_id: int, new: NewEntry) -> int:
    """Insert an entry into the inbox of a run that another process may be driving. Returns its number. Raises GaveUp if
    the database cannot be written."""
    writer, tries = engine(place, "write"), 0
    try:
        while True:
            tries += 1
            try:
                with writer.begin() as connection:
                    return inserted(connection, run_id, new)
            except OverflowError:
                raise GaveUp(
                    f"{place}: an entry of the inbox has the largest number there is: delete that row, and try again."
                ) from None
            except DBAPIError as error:  # the number was drawn twice, or other writers held the lock for long
                if tries == TRIES or not (isinstance(error, IntegrityError) or will_pass(error)):
                    raise
    except DBAPIError as error:
        raise GaveUp(f"{place} cannot be written ({in_words(error)}): try again later.") from None
    finally:
        writer.dispose()


def inserted(connection: Connection, run_id: int, new: NewEntry) -> int:
    """Insert an entry into the open transaction. Returns its number. Raises IntegrityError if another process drew the
    same one."""
    last = select(func.coalesce(func.max(InboxRow.entry), 0)).where(InboxRow.run_id == run_id)
    entry = connection.execute(last).scalar_one() + 1
    connection.execute(insert(InboxRow).values(run_id=run_id, entry=entry, at=time.time(), **asdict(new)))
    return entry
