"""Tables of calls to models over the network, and their cost."""

from typing import get_args

from sqlalchemy import CheckConstraint, ForeignKeyConstraint
from sqlalchemy.orm import Mapped, mapped_column

from pace_async.events import Kind
from pace_async.population.models.base import STAGE_OUTCOMES, Base, one_of, refers


class ImplementerChoiceRow(Base):
    """The model that a bandit chose for the experiment of a lease: the fields of `events.ImplementerChosen`."""

    __tablename__ = "implementer_choices"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    model: Mapped[str]
    rate: Mapped[float]
    usd: Mapped[float]
    at: Mapped[float]
    __table_args__ = (
        refers(("lease",), "leases", ("lease",)),
        one_of("kind", get_args(Kind)),
        CheckConstraint("rate >= 0 AND rate <= 1 AND usd >= 0 AND usd < 1e308", name="expectation_possible"),
    )


class ImplementerCallRow(Base):
    """One call of an implementer, or of an advisor that is asked over the network, or one for a page of notes (`role`),
    charged with or without an answer."""

    __tablename__ = "implementer_calls"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    model: Mapped[str]
    outcome: Mapped[str]
    prompt_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    cost_usd: Mapped[float]
    seconds: Mapped[float]
    at: Mapped[float]
    role: Mapped[str] = mapped_column(server_default="implementer")
    __table_args__ = (
        refers(("lease",), "leases", ("lease",)),
        CheckConstraint("cost_usd >= 0 AND cost_usd < 1e308", name="cost_not_negative"),
    )


class ImplementerTryRow(Base):
    """One answer of a model to an experiment: the fields of `events.ImplementerTry`, and `ordinal`, the call that
    returned it. `evaluation` is set if the program failed and the model was asked again."""

    __tablename__ = "implementer_tries"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    ordinal: Mapped[int]
    outcome: Mapped[str]
    detail: Mapped[str]
    program: Mapped[str | None]
    answer: Mapped[str | None]
    evaluation: Mapped[str | None]
    evaluation_detail: Mapped[str | None]
    evaluation_feedback: Mapped[str | None]
    evaluation_seconds: Mapped[float | None]
    __table_args__ = (
        refers(("lease", "ordinal"), "implementer_calls", ("lease", "ordinal")),
        CheckConstraint("outcome <> 'ok' OR program IS NOT NULL", name="program_if_ok"),
        CheckConstraint("evaluation IS NULL OR outcome = 'ok'", name="evaluated_if_ok"),
        one_of("evaluation", STAGE_OUTCOMES),
    )


class NotesPageRow(Base):
    """A page of notes: the fields of `events.NotesPage`, and the call that returned it (`lease`, `ordinal`)."""

    __tablename__ = "notes_pages"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int]
    ordinal: Mapped[int]
    candidates: Mapped[int]
    from_group: Mapped[int | None]
    text: Mapped[str]
    __table_args__ = (refers(("lease", "ordinal"), "implementer_calls", ("lease", "ordinal")),)


class IdeasLeftRow(Base):
    """An idea that left the pool of an island, or one that stayed and got the new words `text`: a row for each of the
    `ideas` of `events.IdeasLeft`. `lease` is the newest candidate of which the model knew, and names its call together
    with `ordinal`."""

    __tablename__ = "ideas_left"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    idea: Mapped[int] = mapped_column(primary_key=True)
    island: Mapped[int]
    from_group: Mapped[int | None]
    text: Mapped[str | None]
    __table_args__ = (refers(("lease", "ordinal"), "implementer_calls", ("lease", "ordinal")),)


class ReservationRow(Base):
    """The most that a call may cost, committed before the call. `ordinal` is the call of its lease that closed it, NULL
    while the call is in flight."""

    __tablename__ = "reservations"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int]
    model: Mapped[str]
    cost_usd: Mapped[float]
    at: Mapped[float]
    ordinal: Mapped[int | None]
    role: Mapped[str] = mapped_column(server_default="implementer")
    __table_args__ = (
        refers(("lease",), "leases", ("lease",)),
        refers(("lease", "ordinal"), "implementer_calls", ("lease", "ordinal")),
        CheckConstraint("cost_usd >= 0 AND cost_usd < 1e308", name="cost_not_negative"),
    )


class ImplementerCheckRow(Base):
    """A tiny call at a process's start, which proves that the model answers."""

    __tablename__ = "implementer_checks"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    model: Mapped[str]
    prompt_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    cost_usd: Mapped[float]
    seconds: Mapped[float]
    at: Mapped[float]
    role: Mapped[str] = mapped_column(server_default="implementer")
    __table_args__ = (
        ForeignKeyConstraint(("run_id",), ["runs.run_id"]),
        CheckConstraint("cost_usd >= 0 AND cost_usd < 1e308", name="cost_not_negative"),
    )
