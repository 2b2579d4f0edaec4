"""Tables of the run as a whole: its header, its states, its settings, outside faults."""

from typing import Any

from sqlalchemy import BigInteger, ForeignKeyConstraint, UniqueConstraint, false
from sqlalchemy.orm import Mapped, mapped_column

from pace_async.fitness import DIRECTIONS
from pace_async.population.models.base import RUN_STATES, Base, one_of, refers


class RunRow(Base):
    """The run's identity and settings, fixed at its start. `config` is the whole resolved configuration. `task_folder`
    is absolute, and `task_suffix` the file name extension of its programs (NULL in runs of an earlier version).
    `trust` is "shared" where programs can reach what scores them (command tasks), else "hidden". `noisy`: equal
    programs may get different scores (always false in runs of an earlier version). `aims` are the objectives of a task
    with several, as JSON, else NULL. `prompts_digest` is
    that of the templates of its questions, NULL for advisors with a wording of their own. `longest_stall_ms` and
    `longest_turn_cpu_ms` are the longest turns of the event loop, in milliseconds of wall clock and of its thread's
    processor time, over all processes that drove the run. They are NULL until measured."""

    __tablename__ = "runs"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    task: Mapped[str]
    task_digest: Mapped[str]
    task_folder: Mapped[str | None]
    task_suffix: Mapped[str | None]
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
    trust: Mapped[str] = mapped_column(server_default="hidden")
    noisy: Mapped[bool] = mapped_column(server_default=false())
    aims: Mapped[str | None]
    prompts_digest: Mapped[str | None]
    created_at: Mapped[float]
    longest_stall_ms: Mapped[float | None]
    longest_turn_cpu_ms: Mapped[float | None]
    __table_args__ = (UniqueConstraint("name"), one_of("direction", DIRECTIONS))


class SecretRow(Base):
    """The secret of a run, hidden from every author of programs: the seeds of its fresh instances derive from `fresh`.
    No view, fact, page or command shows it. It is read only when a run is loaded."""

    __tablename__ = "secrets"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    fresh: Mapped[str]
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]),)


class RunStateRow(Base):
    """The history of the run's state. The last row is the present state."""

    __tablename__ = "run_states"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str]
    reason: Mapped[str]
    at: Mapped[float]
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]), one_of("state", RUN_STATES))


class FaultRow(Base):
    """A failure of a service or the machine. `stage` names where."""

    __tablename__ = "faults"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    stage: Mapped[str]
    kind: Mapped[str]
    detail: Mapped[str]
    lease: Mapped[int | None]
    at: Mapped[float]
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]), refers(("lease",), "leases", ("lease",)))


class SettingChangeRow(Base):
    """A setting that a resume changed. `before` and `after` are JSON texts."""

    __tablename__ = "setting_changes"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str]
    before: Mapped[str]
    after: Mapped[str]
    at: Mapped[float]
    __table_args__ = (ForeignKeyConstraint(("run_id",), ["runs.run_id"]),)
