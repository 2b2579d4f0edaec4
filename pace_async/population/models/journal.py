"""Tables of the journal: every fact of a run in the order of its commits, the long texts that facts refer to, and what
the facts up to one of them come to."""

from sqlalchemy import ForeignKeyConstraint
from sqlalchemy.orm import Mapped, mapped_column

from pace_async.population.models.base import Base


class JournalRow(Base):
    """A fact: `kind` is its class in `pace_async.events`, `body` its fields as JSON, without those that have their
    default. `seq` counts from 1 within the run and has no gap. 1 is the run's header, with its time of creation. `at`
    is the fact's time, and `lease` its lease, NULL without one. A run that began in a version without a journal has
    no row here until a process writes to it."""

    __tablename__ = "journal"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[float]
    kind: Mapped[str]
    lease: Mapped[int | None]
    body: Mapped[str]
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]),)


class BlobRow(Base):
    """A long text that a body of the journal names by `digest`, the first half of the SHA-256 of its UTF-8, where no
    other row keeps it. `content` begins with a byte that names its form, 0 as it is or 1 deflated."""

    __tablename__ = "blobs"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    content: Mapped[bytes]
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]),)


class SnapshotRow(Base):
    """What the facts of a run up to `seq` come to: `state` is the state of its search (`journal.states`), `view` what a
    screen shows of it (`observe.followed`). Only the `version` of pace that made a row reads it. No row is needed:
    the journal says the same."""

    __tablename__ = "snapshots"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[float]
    version: Mapped[str]
    state: Mapped[bytes]
    view: Mapped[bytes]
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]),)
