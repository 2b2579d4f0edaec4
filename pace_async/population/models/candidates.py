"""Tables of candidates, their scores and the evaluations before them."""

from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKeyConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from pace_async.population.columns import CleanJson
from pace_async.population.models.base import (
    ATTEMPT_OUTCOMES,
    PRACTICE_OUTCOMES,
    SCORED_OUTCOMES,
    STAGE_OUTCOMES,
    Base,
    finite,
    one_of,
    refers,
)


class CandidateRow(Base):
    """A complete rollout. Candidate 0 is the task's own program: it has no lease and no island. `merit` is the score,
    negated where lower is better, so that one index ranks either direction. `queue_seconds` is NULL in rows of versions
    that did not measure it. `feedback` is what a command task's evaluator wrote for the author of the next program."""

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
    queue_seconds: Mapped[float | None]
    memoised: Mapped[bool]
    at: Mapped[float]
    metrics: Mapped[dict[str, Any]]
    program_hash: Mapped[str | None]
    program: Mapped[str | None]
    feedback: Mapped[str | None]
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


class EvaluationAttemptRow(Base):
    """One attempt to evaluate a program: the fields of `events.EvaluationAttempted`. Lease 0 has no row in `leases`, so
    `lease` is not a foreign key. `curve` is a list of [step, value]."""

    __tablename__ = "evaluation_attempts"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    stage: Mapped[str] = mapped_column(primary_key=True)
    fresh: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    outcome: Mapped[str]
    seconds: Mapped[float]
    queue_seconds: Mapped[float]
    started_at: Mapped[float]
    ended_at: Mapped[float]
    detail: Mapped[str]
    accepted: Mapped[bool]
    node: Mapped[str | None]
    machine: Mapped[str | None]
    curve: Mapped[list[Any] | None] = mapped_column(CleanJson)
    score: Mapped[float | None]
    reported_by: Mapped[str | None]
    __table_args__ = (
        ForeignKeyConstraint(("run_id",), ["runs.run_id"]),
        one_of("outcome", ATTEMPT_OUTCOMES),
        CheckConstraint("outcome <> 'infrastructure_error' OR NOT accepted", name="accepted_if_not_lost"),
        CheckConstraint("attempt > 0 AND fresh >= 0 AND lease >= 0", name="numbered"),
    )


class PracticeRow(Base):
    """What a lease's last program did on practice instances: the fields of `events.Practised`. Lease 0 has no row in
    `leases`, so `lease` is not a foreign key."""

    __tablename__ = "practices"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    program_digest: Mapped[str]
    outcome: Mapped[str]
    detail: Mapped[str]
    score: Mapped[float | None]
    metrics: Mapped[dict[str, Any]]
    printed: Mapped[str]
    seconds: Mapped[float]
    memoised: Mapped[bool]
    at: Mapped[float]
    __table_args__ = (
        ForeignKeyConstraint(("run_id",), ["runs.run_id"]),
        one_of("outcome", PRACTICE_OUTCOMES),
        CheckConstraint("(outcome = 'ok') = (score IS NOT NULL)", name="score_if_and_only_if_ok"),
        finite("score"),
    )


class CascadeScoreRow(Base):
    """An ended cheap stage of a rollout's evaluation: the fields of `events.CascadeStageEnded`. `number` is the stage's
    place in the cascade. `ordinal` counts the stages of a lease, which may have several programs. `program` goes on to
    the next stage."""

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
    """A try of a claimed new best on fresh instances: the fields of `events.FreshScore`, in the order of the tries.
    `metrics` and `own_metrics` are NULL unless the task has several objectives."""

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
    metrics: Mapped[dict[str, Any] | None]
    own_metrics: Mapped[dict[str, Any] | None]
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
    """A program under test on fresh instances: the fields of `events.Claimed`, so that a resume continues after a
    crash. Deleted when its candidate exists or its lease is aborted."""

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
    feedback: Mapped[str | None]
    __table_args__ = (
        refers(("lease",), "leases", ("lease",)),
        refers(("island",), "islands", ("island",)),
        finite("score"),
    )
