"""Tables of evaluation epochs: the results that each evaluator of a run gave its programs."""

from typing import Any

from sqlalchemy import CheckConstraint, ForeignKeyConstraint
from sqlalchemy.orm import Mapped, mapped_column

from pace_async.population.models.base import SCORED_OUTCOMES, Base, finite, one_of, refers


class EvaluationEpochRow(Base):
    """One time that the programs of a run were scored again: the fields of `events.RescoreBegan`, and, once its scores
    are in force, those of `events.EpochInForce`. Epoch 0 has no row: its digest stands in `runs`."""

    __tablename__ = "evaluation_epochs"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    epoch: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    task_digest: Mapped[str]
    best: Mapped[int | None]
    began_at: Mapped[float]
    in_force_at: Mapped[float | None]
    last_lease: Mapped[int | None]
    __table_args__ = (
        ForeignKeyConstraint(("run_id",), ["runs.run_id"]),
        CheckConstraint("epoch > 0", name="numbered"),
        CheckConstraint("(in_force_at IS NULL) = (last_lease IS NULL)", name="last_lease_if_in_force"),
    )


class EpochScoreRow(Base):
    """The result that one evaluator gave one candidate. Rows of an epoch are copied from `candidates` when the next one
    comes into force, so `candidates` has the scores in force and this table every score."""

    __tablename__ = "epoch_scores"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    epoch: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    candidate: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    outcome: Mapped[str]
    score: Mapped[float | None]
    merit: Mapped[float | None]
    reward: Mapped[float]
    detail: Mapped[str]
    seconds: Mapped[float]
    queue_seconds: Mapped[float | None]
    memoised: Mapped[bool]
    at: Mapped[float]
    metrics: Mapped[dict[str, Any]]
    __table_args__ = (
        refers(("candidate",), "candidates", ("candidate",)),
        one_of("outcome", SCORED_OUTCOMES),
        CheckConstraint("(outcome = 'ok') = (score IS NOT NULL)", name="score_if_and_only_if_ok"),
        CheckConstraint("merit = score OR merit = -score OR (merit IS NULL AND score IS NULL)", name="merit_of_score"),
        finite("score"),
        finite("reward"),
    )
