"""The newest snapshot of a run: what its facts up to one of them come to.

Invariant: nothing depends on it but time. One that does not read, or was made by another version of pace, is the same
as none.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from pace_async import __version__
from pace_async.population.models import JournalRow, SnapshotRow


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The facts up to `seq` come to `state` and to `view`, each encoded."""

    seq: int
    state: bytes
    view: bytes


def newest_snapshot(connection: Connection, run_id: int) -> Snapshot | None:
    """None if this version of pace has made none since the present evaluator came into force, or of facts that are not
    there."""
    row = SnapshotRow
    journal = select(func.max(JournalRow.seq)).where(JournalRow.run_id == run_id).scalar_subquery()
    statement = select(row.seq, row.version, row.state, row.view).where(row.run_id == run_id, row.seq <= journal)
    newest = connection.execute(statement.order_by(row.seq.desc()).limit(1)).one_or_none()
    if newest is None or newest.version != __version__:
        return None
    return Snapshot(newest.seq, bytes(newest.state), bytes(newest.view))
