"""Tables of rollouts before a program exists: islands, leases, ideas, the advisor's answers."""

from typing import get_args

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from pace_async.events import Action, Purpose
from pace_async.population.models.base import LEASE_STAGES, LEASE_STATES, Base, one_of, refers

TAKEN = text("origin IS NOT NULL")


class IslandRow(Base):
    """A search thread that has opened a lease."""

    __tablename__ = "islands"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    island: Mapped[int] = mapped_column(primary_key=True)
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]),)


class LeaseRow(Base):
    """A rollout from admission to closing. `oldest_version` is the oldest weight version among its tokens. `staleness`
    is the group's update minus it. `trained_by` is that update if it trained. `group_reward` is the reward in the
    group's advantages, which differs from the candidate's if rewards are shuffled as a control. `migrant` is the
    candidate of another island given as its parent."""

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
        refers(("island",), "islands", ("island",)),
        refers(("group_number",), "groups", ("group_number",)),
        one_of("state", LEASE_STATES),
        one_of("stage", LEASE_STAGES),
        CheckConstraint("(state = 'open') = (closed_at IS NULL)", name="closed_once"),
        CheckConstraint("(state = 'trained') = (trained_by IS NOT NULL)", name="trained_by_an_update"),
        CheckConstraint("(stage = 'shipped') = (group_number IS NOT NULL)", name="shipped_in_a_group"),
        CheckConstraint("staleness >= 0", name="staleness_not_negative"),
        Index(None, "run_id", "state", "stage"),
        Index(None, "run_id", "group_number"),
    )


class IslandActionRow(Base):
    """An island that had stopped improving went back along its history or crossed over with another as `lease` opened:
    the fields of `events.IslandActed`. The ideas taken in are in `ideas`."""

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
        refers(("lease",), "leases", ("lease",)),
        refers(("island",), "islands", ("island",)),
        refers(("candidate",), "candidates", ("candidate",)),
        refers(("partner",), "islands", ("island",)),
        refers(("as_of",), "leases", ("lease",)),
        one_of("action", get_args(Action)),
        CheckConstraint("(action = 'backtrack') = (snapshot IS NOT NULL)", name="backtrack_to_a_snapshot"),
        CheckConstraint("(action = 'crossover') = (partner IS NOT NULL)", name="crossover_with_a_partner"),
        CheckConstraint("(partner IS NULL) = (as_of IS NULL)", name="partner_as_of_a_lease"),
    )


class IdeaRow(Base):
    """An idea as it entered an island's pool. `lease` is the rollout that proposed it or, for an idea from another
    island, the one that opened then. `origin` is its number on that island, which the action's row names.
    """

    __tablename__ = "ideas"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    island: Mapped[int] = mapped_column(primary_key=True)
    idea: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int]
    description: Mapped[str]
    origin: Mapped[int | None]
    __table_args__ = (
        refers(("island",), "islands", ("island",)),
        refers(("lease",), "leases", ("lease",)),
        Index("ix_ideas_taken", "run_id", "lease", sqlite_where=TAKEN, postgresql_where=TAKEN),
    )


class ProposalRow(Base):
    """One of the ideas that a rollout proposed, in order. `known`: it repeats that idea, by the advisor's verdict or
    word for word."""

    __tablename__ = "proposals"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    island: Mapped[int]
    idea: Mapped[int]
    known: Mapped[bool]
    description: Mapped[str]
    __table_args__ = (
        refers(("lease",), "leases", ("lease",)),
        refers(("island", "idea"), "ideas", ("island", "idea")),
    )


class ExperimentRow(Base):
    """The advisor's chosen experiment and its parent. `description` is NULL if the answer could not be parsed. `covers`
    is a JSON list of the numbers of other ideas that need no experiment any more, by the advisor's word. It is NULL
    without any."""

    __tablename__ = "experiments"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    lease: Mapped[int] = mapped_column(primary_key=True)
    island: Mapped[int]
    parent: Mapped[int]
    idea: Mapped[int | None]
    description: Mapped[str | None]
    at: Mapped[float]
    covers: Mapped[str | None]
    __table_args__ = (
        refers(("lease",), "leases", ("lease",)),
        refers(("parent",), "candidates", ("candidate",)),
        refers(("island", "idea"), "ideas", ("island", "idea")),
    )


class AdvisorCallRow(Base):
    """One prompt and one sampled answer, as token ids (`blobs` says how they are packed). `prompt` is the text that an
    advisor over the network was asked. Then there are no ids. `words` is a JSON object: what words of the tokens
    stand for in this prompt. It is null where each stands for itself."""

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
    prompt: Mapped[str | None]
    words: Mapped[str | None]
    __table_args__ = (
        refers(("lease",), "leases", ("lease",)),
        one_of("purpose", get_args(Purpose)),
        CheckConstraint("length(logprobs) = 4 * completion_tokens", name="a_logprob_per_token"),
    )
