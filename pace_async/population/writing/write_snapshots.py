"""Keeps the newest snapshot of a run.

Invariant: it is replaced in one transaction, so a run has a whole one or none.
"""

from sqlalchemy import Connection, delete, insert

from pace_async import __version__
from pace_async.population.models import SnapshotRow


def snapshot_kept(connection: Connection, run_id: int, seq: int, at: float, state: bytes, view: bytes) -> None:
    """What the facts up to `seq` come to, in place of an earlier one."""
    snapshots_removed(connection, run_id)
    row = {"run_id": run_id, "seq": seq, "at": at, "version": __version__, "state": state, "view": view}
    connection.execute(insert(SnapshotRow).values(**row))


def snapshots_removed(connection: Connection, run_id: int) -> None:
    """The run has none any more."""
    connection.execute(delete(SnapshotRow).where(SnapshotRow.run_id == run_id))
