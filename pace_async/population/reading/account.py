"""A report's data: the candidates, groups, faults and spend of a run, each as a list of typed rows."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select, text

from pace_async.population.models import CandidateRow, GroupRow, LeaseRow, RunRow
from pace_async.population.reading.candidates import candidates_with_experiments, columns
from pace_async.population.reading.timings import driven_seconds


@dataclass(frozen=True, slots=True)
class CompletedCandidate:
    """A candidate in the order of completion. `completed` counts from 1 and includes the task's own program.
    `best_so_far` is the best score up to then, None before the first."""

    completed: int
    candidate: int
    outcome: str
    score: float | None
    best_so_far: float | None
    parent: int | None
    island: int | None
    idea: str | None
    experiment: str | None


@dataclass(frozen=True, slots=True)
class ShippedGroup:
    """A group and the learner's figures for it."""

    group_number: int
    state: str
    reason: str
    alpha: float | None
    loss: float | None
    entropy: float | None
    grad_norm: float | None
    clip_fraction: float | None
    ess: float | None


@dataclass(frozen=True, slots=True)
class RewardInGroup:
    """The reward of one rollout of a group."""

    group_number: int
    reward: float | None
    staleness: int | None
    state: str


@dataclass(frozen=True, slots=True)
class FaultCount:
    """Faults of one kind at one stage, and the newest one's detail."""

    stage: str
    kind: str
    times: int
    detail: str


@dataclass(frozen=True, slots=True)
class Spend:
    """Calls of one model in one role."""

    role: str
    model: str
    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float | None
    usd: float | None


@dataclass(frozen=True, slots=True)
class Account:
    """`candidates` are in the order of completion, `groups` and `rewards` by group, `faults` the most frequent first.
    `began` is when the run was made, in seconds since the epoch, `driven` the seconds in which a process drove it."""

    candidates: tuple[CompletedCandidate, ...]
    groups: tuple[ShippedGroup, ...]
    rewards: tuple[RewardInGroup, ...]
    faults: tuple[FaultCount, ...]
    spend: tuple[Spend, ...]
    began: float
    driven: float


def account_of(connection: Connection, run_id: int) -> Account:
    """The account of one run."""
    groups = select(
        *(GroupRow.group_number, GroupRow.state, GroupRow.reason, GroupRow.alpha, GroupRow.loss, GroupRow.entropy),
        *(GroupRow.grad_norm, GroupRow.clip_fraction, GroupRow.ess),
    ).where(GroupRow.run_id == run_id)
    rewards = select(LeaseRow.group_number, LeaseRow.group_reward, LeaseRow.staleness, LeaseRow.state).where(
        LeaseRow.run_id == run_id, LeaseRow.group_number.is_not(None)
    )
    began = connection.execute(select(RunRow.created_at, RunRow.name).where(RunRow.run_id == run_id)).one()
    return Account(
        candidates=_candidates(connection, run_id),
        groups=tuple(ShippedGroup(*row) for row in connection.execute(groups.order_by(GroupRow.group_number))),
        rewards=tuple(
            RewardInGroup(*row) for row in connection.execute(rewards.order_by(LeaseRow.group_number, LeaseRow.lease))
        ),
        faults=_faults(connection, run_id),
        spend=_spend(connection, began.name),
        began=began.created_at,
        driven=driven_seconds(connection, run_id),
    )


def _candidates(connection: Connection, run_id: int) -> tuple[CompletedCandidate, ...]:
    direction = connection.execute(select(RunRow.direction).where(RunRow.run_id == run_id)).scalar_one()
    sign = 1.0 if direction == "maximize" else -1.0
    order = (CandidateRow.at, CandidateRow.candidate)
    completed = func.row_number().over(order_by=order).label("completed")
    best = (sign * func.max(CandidateRow.merit).over(order_by=order, rows=(None, 0))).label("best_so_far")
    named = columns("candidate", "outcome", "score")
    rows = connection.execute(
        candidates_with_experiments(completed, *named, best, *columns("parent", "island", "idea", "experiment"))
        .where(CandidateRow.run_id == run_id)
        .order_by(*order)
    )
    return tuple(CompletedCandidate(*row) for row in rows)


def _faults(connection: Connection, run_id: int) -> tuple[FaultCount, ...]:
    rows = connection.execute(
        text(
            """SELECT f.stage, f.kind, COUNT(*) AS times,
                      (SELECT x.detail FROM faults x WHERE x.run_id = f.run_id AND x.stage = f.stage
                       AND x.kind = f.kind ORDER BY x.number DESC LIMIT 1) AS detail
               FROM faults f WHERE f.run_id = :run_id
               GROUP BY f.run_id, f.stage, f.kind ORDER BY times DESC, f.stage, f.kind"""
        ),
        {"run_id": run_id},
    )
    return tuple(FaultCount(*row) for row in rows)


def _spend(connection: Connection, run: str) -> tuple[Spend, ...]:
    columns_of_view = "role, model, calls, prompt_tokens, completion_tokens, seconds, usd"
    rows = connection.execute(text(f"SELECT {columns_of_view} FROM spend WHERE run = :run"), {"run": run})
    return tuple(Spend(*row) for row in rows)
