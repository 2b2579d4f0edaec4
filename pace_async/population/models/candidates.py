"""Candidates, their scores, and what was scored on the way."""

from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKeyConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from pace_async.population.columns import CleanJson
from pace_async.population.models.base import SCORED_OUTCOMES, STAGE_OUTCOMES, Base, finite, one_of, refers


class CandidateRow(Base):
    """A complete rollout. Candidate 0 is the task's own program: it has no lease and no island. `merit` is the score,
    negated where lower is better, so that one index ranks either direction."""

    __tablename__ = "candidates"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    candidate: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int | None]
    island: Mapped[int | None]
    parent: Mapped[int | None]
    outcome: Mapped[str]
    score: Mapped[float | None]
    merit: Mapped[float | None]
    reward: Mapped[float]
    mechanism: Mapped[str | None]
    detail: Mapped[str]
    seconds: Mapped[float]
    memoised: Mapped[bool]
    at: Mapped[float]
    metrics: Mapped[dict[str, Any]]
    program_hash: Mapped[str | None]
    program: Mapped[str | None]
    __table_args__ = (
        ForeignKeyConstraint(("run_id",), ["runs.run_id"]),
        refers(("lease",), "leases", ("lease",)),
        refers(("island",), "islands", ("island",)),
        refers(("parent",), "candidates", ("candidate",)),
        one_of("outcome", SCORED_OUTCOMES),
        CheckConstraint("(outcome = 'ok') = (score IS NOT NULL)", name="score_if_and_only_if_ok"),
        CheckConstraint("outcome <> 'ok' OR program IS NOT NULL", name="program_if_ok"),
        CheckConstraint("merit = score OR merit = -score OR (merit IS NULL AND score IS NULL)", name="merit_of_score"),
        CheckConstraint("(candidate = 0 AND lease IS NULL) OR candidate = lease", name="candidate_is_its_lease"),
        finite("score"),
        finite("reward"),
        Index("ix_candidates_rank", "run_id", text("merit DESC"), "candidate"),
        Index(None, "run_id", "at", "candidate"),
        Index(None, "run_id", "lease"),
    )


class CascadeScoreRow(Base):
    """A cheap stage of a rollout's evaluation that has ended: the fields of `events.CascadeStageEnded`. `number` is the
    stage's place in the cascade; `ordinal` counts a lease's stages, whose programs may be several. `program` is what
    goes on to the next stage."""

    __tablename__ = "cascade_scores"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int]
    stage: Mapped[str]
    outcome: Mapped[str]
    score: Mapped[float | None]
    threshold: Mapped[float]
    passed: Mapped[bool]
    seconds: Mapped[float]
    memoised: Mapped[bool]
    program: Mapped[str | None]
    mechanism: Mapped[str | None]
    at: Mapped[float]
    __table_args__ = (
        refers(("lease",), "leases", ("lease",)),
        one_of("outcome", STAGE_OUTCOMES),
        CheckConstraint("(outcome = 'ok') = (score IS NOT NULL)", name="score_if_and_only_if_ok"),
        CheckConstraint("score IS NOT NULL OR NOT passed", name="passed_by_a_score"),
        CheckConstraint("passed = (program IS NOT NULL)", name="program_goes_on"),
        finite("score"),
    )


class FreshScoreRow(Base):
    """A candidate whose score claimed to be a new best, tried on fresh instances: the fields of `events.FreshScore`, in
    the order of the tries."""

    __tablename__ = "fresh_scores"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    candidate: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    seed: Mapped[int] = mapped_column(BigInteger)
    claimed: Mapped[float]
    outcome: Mapped[str]
    score: Mapped[float | None]
    own_score: Mapped[float | None]
    held: Mapped[bool]
    seconds: Mapped[float]
    __table_args__ = (
        refers(("candidate",), "candidates", ("candidate",)),
        one_of("outcome", STAGE_OUTCOMES),
        CheckConstraint("(outcome = 'ok') = (score IS NOT NULL)", name="score_if_and_only_if_ok"),
        CheckConstraint("score IS NOT NULL OR NOT held", name="held_by_a_score"),
        finite("claimed"),
        finite("score"),
        finite("own_score"),
    )


class ClaimRow(Base):
    """A program that is being tried on fresh instances: the fields of `events.Claimed`, so that a resume goes on where
    a crash cut it off. Gone when its candidate is there, or its lease aborted."""

    __tablename__ = "claims"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True)
    island: Mapped[int]
    program: Mapped[str]
    mechanism: Mapped[str | None]
    score: Mapped[float]
    metrics: Mapped[dict[str, Any]]
    seconds: Mapped[float]
    memoised: Mapped[bool]
    at: Mapped[float]
    tries: Mapped[list[Any]] = mapped_column(CleanJson)
    __table_args__ = (
        refers(("lease",), "leases", ("lease",)),
        refers(("island",), "islands", ("island",)),
        finite("score"),
    )
