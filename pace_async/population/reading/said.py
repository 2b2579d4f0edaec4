"""What the advisor said for a rollout and the result, read from the rows."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, select

from pace_async.population.models import AdvisorCallRow, CandidateRow, ExperimentRow
from pace_async.population.reading.candidates import same_rollout


@dataclass(frozen=True, slots=True)
class RolloutAnswers:
    """`answers` are the texts of the advisor's calls, in order. `experiment` is None if they could not be parsed.
    `outcome` and `score` are those of the candidate, empty and None before there is one."""

    answers: tuple[str, ...]
    experiment: str | None
    outcome: str = ""
    score: float | None = None


def said_of(connection: Connection, run_id: int, leases: Collection[int]) -> dict[int, RolloutAnswers]:
    """What was said for these leases, by lease. A lease without an advisor's decision is left out."""
    answers: dict[int, list[str]] = {}
    call = AdvisorCallRow
    statement = select(call.lease, call.text).where(call.run_id == run_id, call.lease.in_(leases))
    for lease, text in connection.execute(statement.order_by(call.lease, call.ordinal)):
        answers.setdefault(lease, []).append(text)
    decided = (
        select(ExperimentRow.lease, ExperimentRow.description, CandidateRow.outcome, CandidateRow.score)
        .outerjoin(CandidateRow, same_rollout(CandidateRow, ExperimentRow))
        .where(ExperimentRow.run_id == run_id, ExperimentRow.lease.in_(leases))
    )
    return {
        lease: RolloutAnswers(tuple(answers.get(lease, ())), experiment, outcome or "", score)
        for lease, experiment, outcome, score in connection.execute(decided)
    }
