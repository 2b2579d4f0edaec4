"""Tables of what people put into a run: their inbox, and what the run has taken in."""

from sqlalchemy import ForeignKeyConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from pace_async.population.models.base import Base, refers


class InboxRow(Base):
    """An idea as somebody wrote it, a program and what it is, or a word about what is there already. The only table
    into which other processes than the run's own may insert, which does so itself only as it begins. `entry` counts
    from 1 within the run. `program` is NULL for an idea, and that of several files is one text. With a `subject` the
    row is a word as in `events.Steered`, about the idea or the candidate of this `number`."""

    __tablename__ = "inbox"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    entry: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    text: Mapped[str]
    at: Mapped[float]
    program: Mapped[str | None]
    subject: Mapped[str | None]
    number: Mapped[int | None]
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]),)


class GivenIdeaRow(Base):
    """An entry that the run has taken in, as the idea of that number. `after` is the newest lease then. Entries below 0
    are no entries: they are ideas of the run from which this one started."""

    __tablename__ = "given_ideas"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    entry: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    idea: Mapped[int]
    description: Mapped[str]
    after: Mapped[int]
    at: Mapped[float]
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]),)


class GivenProgramRow(Base):
    """A program of the inbox for which the run opened a lease, and which is that lease's candidate."""

    __tablename__ = "given_programs"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    entry: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    lease: Mapped[int]
    about: Mapped[str]
    at: Mapped[float]
    __table_args__ = (refers(("lease",), "leases", ("lease",)), UniqueConstraint("run_id", "lease"))


class SteeringRow(Base):
    """A word of a person that the run has taken in: the fields of `events.Steered`."""

    __tablename__ = "steering"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    entry: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    subject: Mapped[str]
    number: Mapped[int]
    text: Mapped[str]
    after: Mapped[int]
    at: Mapped[float]
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]),)
