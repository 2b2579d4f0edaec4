"""The tables. Every one is keyed by run_id first, so that several runs can share one database.

Invariants that the database itself holds: an id is used once; every reference exists; a score is there if and only if
the outcome is ok, and is finite; a lease is closed if and only if its state says how; a lease is trained in one group
at most. What needs two rows to decide (legal order, staleness within the bound) is held by `writes`. Times are seconds
since the epoch, durations seconds. The words are those of `pace_async.events`; `update` and `group` are words of SQL,
so the columns are update_number and group_number.
"""

from typing import Any, get_args

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Double,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from pace_async.events import Action, Kind, Outcome, Purpose
from pace_async.population.columns import CleanJson, CleanText

LEASE_STATES = ("open", "trained", "skipped", "aborted", "expired")
LEASE_STAGES = ("admitted", "advised", "complete", "shipped")
GROUP_STATES = ("shipped", "trained", "skipped")
RUN_STATES = ("running", "draining", "done", "stopped_by_budget", "interrupted", "gave_up", "crashed")
SCORED_OUTCOMES = tuple(word for word in get_args(Outcome) if word != "infrastructure_error")
STAGE_OUTCOMES = tuple(word for word in SCORED_OUTCOMES if word != "below_threshold")
"""Of one evaluation; what a cascade makes of several is a candidate's."""


def _one_of(column: str, words: tuple[str, ...]) -> CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words)
    return CheckConstraint(f"{column} IN ({listed})", name=f"{column}_known")


def _finite(column: str) -> CheckConstraint:
    return CheckConstraint(f"{column} > -1e308 AND {column} < 1e308", name=f"{column}_finite")


def _refers(columns: tuple[str, ...], table: str, targets: tuple[str, ...]) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(("run_id", *columns), [f"{table}.{name}" for name in ("run_id", *targets)])


class Base(DeclarativeBase):
    """Types and constraint names shared by all tables."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012  (SQLAlchemy reads it from the class)
        str: CleanText,
        float: Double,
        bytes: LargeBinary,
        dict[str, Any]: CleanJson,
    }


class Run(Base):
    """What the run is, fixed when it starts. `config` is the whole resolved configuration."""

    __tablename__ = "runs"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    task: Mapped[str]
    task_digest: Mapped[str]
    seed: Mapped[int] = mapped_column(BigInteger)
    objective: Mapped[str]
    advisor: Mapped[str]
    engine: Mapped[str]
    implementer: Mapped[str]
    sandbox: Mapped[str]
    threads: Mapped[int]
    group_size: Mapped[int]
    max_staleness: Mapped[int]
    horizon: Mapped[int]
    lower: Mapped[float]
    upper: Mapped[float]
    direction: Mapped[str]
    config: Mapped[dict[str, Any]]
    created_at: Mapped[float]
    __table_args__ = (UniqueConstraint("name"), _one_of("direction", ("maximize", "minimize")))


class RunState(Base):
    """The history of the run's state; the last row is the present."""

    __tablename__ = "run_states"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str]
    reason: Mapped[str]
    at: Mapped[float]
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]), _one_of("state", RUN_STATES))


class Fault(Base):
    """Something outside failed; `stage` names where."""

    __tablename__ = "faults"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    stage: Mapped[str]
    kind: Mapped[str]
    detail: Mapped[str]
    lease: Mapped[int | None]
    at: Mapped[float]
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]), _refers(("lease",), "leases", ("lease",)))


class IslandRow(Base):
    """A search thread that has opened a lease."""

    __tablename__ = "islands"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    island: Mapped[int] = mapped_column(primary_key=True)
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]),)


class LeaseRow(Base):
    """A rollout from admission to closing. `oldest_version` is the oldest weight version among its tokens, `staleness`
    the group's update minus it, `trained_by` that update if it trained. `group_reward` is the reward that entered the
    group's advantages: another than the candidate's where rewards are shuffled for control; `migrant` the candidate of
    another island that was to be its parent."""

    __tablename__ = "leases"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True)
    island: Mapped[int]
    state: Mapped[str]
    stage: Mapped[str]
    admitted_version: Mapped[int]
    deadline: Mapped[int]
    oldest_version: Mapped[int | None]
    group_number: Mapped[int | None]
    staleness: Mapped[int | None]
    group_reward: Mapped[float | None]
    advantage: Mapped[float | None]
    trained_by: Mapped[int | None]
    reason: Mapped[str | None]
    opened_at: Mapped[float]
    closed_at: Mapped[float | None]
    migrant: Mapped[int | None]
    __table_args__ = (
        _refers(("island",), "islands", ("island",)),
        _refers(("group_number",), "groups", ("group_number",)),
        _one_of("state", LEASE_STATES),
        _one_of("stage", LEASE_STAGES),
        CheckConstraint("(state = 'open') = (closed_at IS NULL)", name="closed_once"),
        CheckConstraint("(state = 'trained') = (trained_by IS NOT NULL)", name="trained_by_an_update"),
        CheckConstraint("(stage = 'shipped') = (group_number IS NOT NULL)", name="shipped_in_a_group"),
        CheckConstraint("staleness >= 0", name="staleness_not_negative"),
        Index(None, "run_id", "state", "stage"),
        Index(None, "run_id", "group_number"),
    )


class IslandActionRow(Base):
    """An island that had stopped improving went back along its history or crossed over with another as `lease` opened:
    the fields of `events.IslandActed`. What came over stands in `ideas`."""

    __tablename__ = "island_actions"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True)
    island: Mapped[int]
    action: Mapped[str]
    candidate: Mapped[int]
    snapshot: Mapped[int | None]
    stay: Mapped[int]
    partner: Mapped[int | None]
    as_of: Mapped[int | None]
    momentum: Mapped[float]
    rollouts: Mapped[int]
    progress: Mapped[float]
    rival: Mapped[float | None]
    probability: Mapped[float]
    at: Mapped[float]
    __table_args__ = (
        _refers(("lease",), "leases", ("lease",)),
        _refers(("island",), "islands", ("island",)),
        _refers(("candidate",), "candidates", ("candidate",)),
        _refers(("partner",), "islands", ("island",)),
        _refers(("as_of",), "leases", ("lease",)),
        _one_of("action", get_args(Action)),
        CheckConstraint("(action = 'backtrack') = (snapshot IS NOT NULL)", name="backtrack_to_a_snapshot"),
        CheckConstraint("(action = 'crossover') = (partner IS NOT NULL)", name="crossover_with_a_partner"),
        CheckConstraint("(partner IS NULL) = (as_of IS NULL)", name="partner_as_of_a_lease"),
    )


class IdeaRow(Base):
    """An idea as it first stood in an island's pool; `lease` is the rollout that proposed it or, where it came over
    from another island, the one that opened then. `origin` is its number on that island, which stands with the action.
    """

    __tablename__ = "ideas"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    island: Mapped[int] = mapped_column(primary_key=True)
    idea: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int]
    description: Mapped[str]
    origin: Mapped[int | None]
    __table_args__ = (_refers(("island",), "islands", ("island",)), _refers(("lease",), "leases", ("lease",)))


class Proposal(Base):
    """One of the ideas a rollout proposed, in order. `known`: it repeats that idea, by the advisor's verdict
    or word for word."""

    __tablename__ = "proposals"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    island: Mapped[int]
    idea: Mapped[int]
    known: Mapped[bool]
    description: Mapped[str]
    __table_args__ = (
        _refers(("lease",), "leases", ("lease",)),
        _refers(("island", "idea"), "ideas", ("island", "idea")),
    )


class ExperimentRow(Base):
    """What the advisor chose to do to which parent. `description` is NULL where its answer could not be parsed."""

    __tablename__ = "experiments"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True)
    island: Mapped[int]
    parent: Mapped[int]
    idea: Mapped[int | None]
    description: Mapped[str | None]
    at: Mapped[float]
    __table_args__ = (
        _refers(("lease",), "leases", ("lease",)),
        _refers(("parent",), "candidates", ("candidate",)),
        _refers(("island", "idea"), "ideas", ("island", "idea")),
    )


class AdvisorCallRow(Base):
    """One prompt and one sampled answer, as token ids (`blobs` says how they are packed)."""

    __tablename__ = "advisor_calls"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    purpose: Mapped[str]
    text: Mapped[str]
    prompt_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    oldest_version: Mapped[int | None]
    seconds: Mapped[float]
    prompt_ids: Mapped[bytes]
    completion_ids: Mapped[bytes]
    logprobs: Mapped[bytes]
    spans: Mapped[bytes]
    __table_args__ = (
        _refers(("lease",), "leases", ("lease",)),
        _one_of("purpose", get_args(Purpose)),
        CheckConstraint("length(logprobs) = 4 * completion_tokens", name="a_logprob_per_token"),
    )


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
        _refers(("lease",), "leases", ("lease",)),
        _one_of("kind", get_args(Kind)),
        CheckConstraint("rate >= 0 AND rate <= 1 AND usd >= 0 AND usd < 1e308", name="expectation_possible"),
    )


class ImplementerCallRow(Base):
    """One call of an implementer, paid for whether or not a program came of it."""

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
    __table_args__ = (
        _refers(("lease",), "leases", ("lease",)),
        CheckConstraint("cost_usd >= 0 AND cost_usd < 1e308", name="cost_not_negative"),
    )


class ImplementerTryRow(Base):
    """One answer of a model to an experiment: the fields of `events.ImplementerTry`, and `ordinal`, the call that
    brought it. `evaluation` is there where the program failed and the model was asked again."""

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
    evaluation_seconds: Mapped[float | None]
    __table_args__ = (
        _refers(("lease", "ordinal"), "implementer_calls", ("lease", "ordinal")),
        CheckConstraint("outcome <> 'ok' OR program IS NOT NULL", name="program_if_ok"),
        CheckConstraint("evaluation IS NULL OR outcome = 'ok'", name="evaluated_if_ok"),
        _one_of("evaluation", STAGE_OUTCOMES),
    )


class ReservationRow(Base):
    """What a call may cost at most, committed before it is made. `ordinal` is the call of its lease that closed it,
    NULL while that is in flight."""

    __tablename__ = "reservations"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int]
    model: Mapped[str]
    cost_usd: Mapped[float]
    at: Mapped[float]
    ordinal: Mapped[int | None]
    __table_args__ = (
        _refers(("lease",), "leases", ("lease",)),
        _refers(("lease", "ordinal"), "implementer_calls", ("lease", "ordinal")),
        CheckConstraint("cost_usd >= 0 AND cost_usd < 1e308", name="cost_not_negative"),
    )


class ImplementerCheckRow(Base):
    """A tiny call made when a process began, to prove that the model answers."""

    __tablename__ = "implementer_checks"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    model: Mapped[str]
    prompt_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    cost_usd: Mapped[float]
    seconds: Mapped[float]
    at: Mapped[float]
    __table_args__ = (
        ForeignKeyConstraint(("run_id",), ["runs.run_id"]),
        CheckConstraint("cost_usd >= 0 AND cost_usd < 1e308", name="cost_not_negative"),
    )


class SettingChangeRow(Base):
    """A setting that a resume changed; `before` and `after` are JSON texts."""

    __tablename__ = "setting_changes"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str]
    before: Mapped[str]
    after: Mapped[str]
    at: Mapped[float]
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]),)


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
        _refers(("lease",), "leases", ("lease",)),
        _refers(("island",), "islands", ("island",)),
        _refers(("parent",), "candidates", ("candidate",)),
        _one_of("outcome", SCORED_OUTCOMES),
        CheckConstraint("(outcome = 'ok') = (score IS NOT NULL)", name="score_if_and_only_if_ok"),
        CheckConstraint("outcome <> 'ok' OR program IS NOT NULL", name="program_if_ok"),
        CheckConstraint("merit = score OR merit = -score OR (merit IS NULL AND score IS NULL)", name="merit_of_score"),
        CheckConstraint("(candidate = 0 AND lease IS NULL) OR candidate = lease", name="candidate_is_its_lease"),
        _finite("score"),
        _finite("reward"),
        Index("ix_candidates_rank", "run_id", text("merit DESC"), "candidate"),
        Index(None, "run_id", "at", "candidate"),
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
        _refers(("lease",), "leases", ("lease",)),
        _one_of("outcome", STAGE_OUTCOMES),
        CheckConstraint("(outcome = 'ok') = (score IS NOT NULL)", name="score_if_and_only_if_ok"),
        CheckConstraint("score IS NOT NULL OR NOT passed", name="passed_by_a_score"),
        CheckConstraint("passed = (program IS NOT NULL)", name="program_goes_on"),
        _finite("score"),
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
        _refers(("candidate",), "candidates", ("candidate",)),
        _one_of("outcome", STAGE_OUTCOMES),
        CheckConstraint("(outcome = 'ok') = (score IS NOT NULL)", name="score_if_and_only_if_ok"),
        CheckConstraint("score IS NOT NULL OR NOT held", name="held_by_a_score"),
        _finite("claimed"),
        _finite("score"),
        _finite("own_score"),
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
        _refers(("lease",), "leases", ("lease",)),
        _refers(("island",), "islands", ("island",)),
        _finite("score"),
    )


class GroupRow(Base):
    """B rollouts that left to train version `update_number`. `metrics` holds what the learner reported beyond the
    columns. The rewards and advantages stand with the leases; they have none where a branch collapsed."""

    __tablename__ = "groups"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    group_number: Mapped[int] = mapped_column(primary_key=True)
    update_number: Mapped[int]
    state: Mapped[str]
    reason: Mapped[str]
    alpha: Mapped[float]
    digest: Mapped[str]
    loss: Mapped[float | None]
    entropy: Mapped[float | None]
    grad_norm: Mapped[float | None]
    clip_fraction: Mapped[float | None]
    ess: Mapped[float | None]
    k3: Mapped[float | None]
    mean_ratio: Mapped[float | None]
    seconds: Mapped[float | None]
    metrics: Mapped[dict[str, Any]]
    shipped_at: Mapped[float]
    ended_at: Mapped[float | None]
    __table_args__ = (
        ForeignKeyConstraint(("run_id",), ["runs.run_id"]),
        _one_of("state", GROUP_STATES),
        CheckConstraint("(state = 'shipped') = (ended_at IS NULL)", name="ended_once"),
    )


class VersionRow(Base):
    """A version of the advisor's weights. Version 0 is the advisor as given; every other one was written by a group.
    `probe_k3`: how far what was served lay from the learner's own weights, after the push that is in the receipt."""

    __tablename__ = "versions"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    group_number: Mapped[int | None]
    weights: Mapped[str | None]
    state: Mapped[str]
    written_at: Mapped[float]
    published_at: Mapped[float | None]
    seconds: Mapped[float | None]
    paused_seconds: Mapped[float | None]
    receipt: Mapped[dict[str, Any] | None]
    probe_k3: Mapped[float | None]
    __table_args__ = (
        ForeignKeyConstraint(("run_id",), ["runs.run_id"]),
        _refers(("group_number",), "groups", ("group_number",)),
        _one_of("state", ("written", "published")),
        CheckConstraint("(version = 0) = (group_number IS NULL)", name="written_by_a_group"),
        CheckConstraint("(state = 'published') = (published_at IS NOT NULL)", name="published_once"),
    )
