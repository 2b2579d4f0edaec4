"""Reads what people put into a run, and how far each idea of theirs has come."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, select
from sqlalchemy.exc import DBAPIError

from pace_async.outside import readable
from pace_async.population.base import Population
from pace_async.population.models import CandidateRow, ExperimentRow, GivenIdeaRow, GivenProgramRow, InboxRow, RunRow

LONGEST_IDEA = 2_000
"""Characters of an idea that are taken in."""
LONGEST_PROGRAM = 16_000_000
"""Characters of a program, with all of its files, that is taken in. A task may allow less."""


def one_line(text: str) -> str:
    """An idea as models see it, whoever wrote the row: one line of printable characters, and not too long."""
    return " ".join(readable(text).split())[:LONGEST_IDEA]


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the inbox. `at` is in seconds since the epoch. An idea has no `program`, and a program's `text` says
    what it is."""

    entry: int
    text: str
    at: float
    program: str | None = None


@dataclass(frozen=True, slots=True)
class GivenIdea:
    """An entry, the newest lease when the run took it in, None if it has not yet, how many candidates tried it out, and
    the candidate and score of the best one, None without a score."""

    entry: int
    text: str
    at: float
    after: int | None
    tried: int
    candidate: int | None
    score: float | None


def untaken(connection: Connection, run: str, after: int = 0) -> Sequence[Entry]:
    """The ideas that the run called `run` has not taken in, by number, then the first program that waits behind the
    entry `after`, if any. Programs of more than LONGEST_PROGRAM characters are passed over."""
    row, given, program = InboxRow, GivenIdeaRow, GivenProgramRow
    entries = (
        select(row.entry, row.text, row.at, row.program)
        .join(RunRow, RunRow.run_id == row.run_id)
        .where(RunRow.name == run)
        .order_by(row.entry)
    )
    ideas = entries.outerjoin(given, and_(given.run_id == row.run_id, given.entry == row.entry)).where(
        row.program.is_(None), given.entry.is_(None)
    )
    programs = entries.outerjoin(program, and_(program.run_id == row.run_id, program.entry == row.entry)).where(
        row.program.is_not(None),
        program.entry.is_(None),
        row.entry > after,
        func.length(row.program) <= LONGEST_PROGRAM,
    )
    rows = (*connection.execute(ideas), *connection.execute(programs.limit(1)))
    return [Entry(entry, _text(text), at, None if made is None else _text(made)) for entry, text, at, made in rows]


def _text(value: object) -> str:
    """What SQLite kept in a column of texts, which may be anything that another program put there."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


async def waiting_in(population: Population, run: str, after: int = 0) -> Sequence[Entry] | None:
    """The same for a running run. None from a database that is away: it is asked again at the next lease."""
    try:
        return await population.read(lambda connection: untaken(connection, run, after))
    except (DBAPIError, OSError):
        return None


def ideas_given(connection: Connection, run_id: int) -> Sequence[GivenIdea]:
    """Every entry of a run, by number."""
    row, given, tried, scored = InboxRow, GivenIdeaRow, ExperimentRow, CandidateRow
    entries = connection.execute(
        select(row.entry, row.text, row.at, given.after)
        .outerjoin(given, and_(given.run_id == row.run_id, given.entry == row.entry))
        .where(row.run_id == run_id, row.program.is_(None))
        .order_by(row.entry)
    )
    experiments = connection.execute(
        select(given.entry, scored.candidate, scored.score)
        .join(tried, and_(tried.run_id == given.run_id, tried.idea == given.idea))
        .join(scored, and_(scored.run_id == tried.run_id, scored.candidate == tried.lease))
        .where(given.run_id == run_id)
        .order_by(given.entry, scored.merit.desc().nulls_last(), tried.lease)
    )
    of_entry: dict[int, list[tuple[int | None, float | None]]] = {}
    for entry, candidate, score in experiments:
        of_entry.setdefault(entry, []).append((candidate if score is not None else None, score))
    return [
        GivenIdea(entry, text, at, after, len(tries := of_entry.get(entry, [])), *(tries[0] if tries else (None, None)))
        for entry, text, at, after in entries
    ]
