"""Candidates as a table: a page of rows that meet a condition, in any order.

The condition is SQL of the reader of the page, and may name the columns of COLUMNS. It runs like any typed statement:
it can only read this database, within a time limit for the whole page.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from pace_async.errors import UsageError
from pace_async.population.models import CandidateRow
from pace_async.population.reading.candidates import candidates_with_experiments, columns
from pace_async.population.reading.read_spending import unpriced_of
from pace_async.population.reading.typed import statements

COLUMNS = (
    *("candidate", "score", "outcome", "experiment", "idea", "parent", "island", "reward", "mechanism"),
    *("staleness", "policy_version", "group_number", "advantage", "lease_state", "cost_usd", "seconds", "at"),
)
"""Names as `pace show` has them. `at` is seconds since the epoch."""
PAGE_S = 5.0
"""The time limit of a page, in seconds."""

LOOKED_UP = 1_000
"""A page of no more rows is found by its candidates alone, and then looked up: so a sort carries no text."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which candidates, and in which order. `where` is a condition in SQL, empty for all."""

    where: str = ""
    order: str = "candidate"
    descending: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """Rows of a selection, each with the names of COLUMNS, and how many rows there are in all."""

    rows: tuple[dict[str, Any], ...]
    found: int


def browse(connection: Connection, run_id: int, chosen: Selection, first: int = 0, most: int = 100) -> Page:
    """At most `most` rows from the row `first` on. Raises UsageError, with the reason in lower case, if the condition
    is not a condition, names an unknown column, or takes longer than PAGE_S seconds."""
    if chosen.order not in COLUMNS:
        raise UsageError(f"there is no column {chosen.order!r}")
    expressions = columns(*COLUMNS, unpriced=unpriced_of(connection, run_id))
    statement = candidates_with_experiments(*expressions).where(CandidateRow.run_id == run_id)
    every = statement.compile(connection, compile_kwargs={"literal_binds": True})
    where = f"WHERE (\n{chosen.where}\n)" if chosen.where.strip() else ""
    order = f"{chosen.order} {'DESC' if chosen.descending else 'ASC'} NULLS LAST, candidate DESC"
    table = f"({every}) AS each_candidate"
    part = f"ORDER BY {order} LIMIT {most:d} OFFSET {first:d}"
    with statements(connection, PAGE_S) as ask:
        if most <= LOOKED_UP:
            chosen_ids = ask(f"SELECT candidate FROM {table} {where} {part}").rows
            listed = ", ".join(str(int(row[0])) for row in chosen_ids) or "NULL"
            where_listed = f"WHERE candidate IN ({listed})"
            answer = ask(f"SELECT * FROM {table} {where_listed} ORDER BY {order}")
        else:
            answer = ask(f"SELECT * FROM {table} {where} {part}")
        counted = ask(f"SELECT COUNT(*) FROM {table} {where}")
    rows = tuple(dict(zip(COLUMNS, row, strict=True)) for row in answer.rows)
    return Page(rows, int(counted.rows[0][0]))
