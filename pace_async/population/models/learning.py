"""Tables of groups and the versions they produced."""

from typing import Any

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index
from sqlalchemy.orm import Mapped, mapped_column

from pace_async.population.models.base import GROUP_STATES, Base, one_of, refers


class GroupRow(Base):
    """B rollouts shipped to train version `update_number`. `metrics` holds the learner's figures without a column.
    Rewards and advantages are in the leases, and advantages are NULL if a branch collapsed. `restores`: the version to
    which the advisor goes back instead of training on the group. `rate` multiplied the learning rate. `step_scale` is
    the share of the step that was taken."""

    __tablename__ = "groups"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    group_number: Mapped[int] = mapped_column(primary_key=True)
    update_number: Mapped[int]
    state: Mapped[str]
    reason: Mapped[str]
    alpha: Mapped[float]
    restores: Mapped[int | None]
    rate: Mapped[float]
    step_scale: Mapped[float | None]
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
        one_of("state", GROUP_STATES),
        Index(None, "run_id", "update_number"),
        CheckConstraint("(state = 'shipped') = (ended_at IS NULL)", name="ended_once"),
    )


class VersionRow(Base):
    """A version of the advisor's weights. Version 0 is the advisor as given. Every other version was written by a
    group. With `restored` it was made from the weights and optimizer of that version. `probe_k3`: divergence of the
    served weights from the learner's own, after the push in the receipt."""

    __tablename__ = "versions"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    group_number: Mapped[int | None]
    restored: Mapped[int | None]
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
        refers(("group_number",), "groups", ("group_number",)),
        one_of("state", ("written", "published")),
        CheckConstraint("(version = 0) = (group_number IS NULL)", name="written_by_a_group"),
        Index(None, "run_id", "group_number"),
        CheckConstraint("(state = 'published') = (published_at IS NOT NULL)", name="published_once"),
    )
