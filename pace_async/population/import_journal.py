"""Gives a run that began in a version without a journal its journal, once, before anything else is written to it.

Invariant: the tables made again from the new journal are those of the run, row by row, or the run stays without one.
"""

from sqlalchemy import Connection

from pace_async.population.checking import check_journal
from pace_async.population.reading.importing.facts import inferred_facts
from pace_async.population.reading.journal import has_journal
from pace_async.population.writing.write_journal import journal_imported


def import_journal(connection: Connection, run_id: int) -> None:
    """Write the journal of a run that has none, in the open transaction. Raises PaceBug for rows that no run can have
    written."""
    if has_journal(connection, run_id):
        return
    with connection.begin_nested() as written:
        journal_imported(connection, run_id, inferred_facts(connection, run_id))
        if check_journal(connection, run_id, "journal").wrong:
            written.rollback()
