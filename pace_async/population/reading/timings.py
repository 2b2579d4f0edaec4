"""Reads how long the stages of a run took: the values are in `population.timings`."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, and_, case, exists, func, select, text
from sqlalchemy.orm import aliased

from pace_async.events import CUT_OFF, GIVEN_UP
from pace_async.events.candidates import was_answered
from pace_async.population.models import (
    CandidateRow,
    EvaluationAttemptRow,
    ExperimentRow,
    FreshScoreRow,
    GroupRow,
    ImplementerCallRow,
    ImplementerTryRow,
    LeaseRow,
    RunStateRow,
    VersionRow,
)
from pace_async.population.reading.candidates import candidates_with_experiments, same_rollout
from pace_async.population.timings import CALLS_COUNTED, ROLLOUTS_TIMED, RecordedSeconds, RolloutTimes, Timings


def timings_of(connection: Connection, run_id: int, limit: int = ROLLOUTS_TIMED) -> Timings:
    """The timings, with at most `limit` rollouts."""
    of_run = CandidateRow.run_id == run_id
    whole = CandidateRow.at - LeaseRow.opened_at
    begun = aliased(RunStateRow)
    interrupted = exists().where(
        begun.run_id == run_id, begun.state == "running", begun.at > LeaseRow.opened_at, begun.at < CandidateRow.at
    )
    driven = (of_run, CandidateRow.lease.is_not(None), ~interrupted)
    fresh = (
        select(func.coalesce(func.sum(FreshScoreRow.seconds), 0.0))
        .where(FreshScoreRow.run_id == CandidateRow.run_id, FreshScoreRow.candidate == CandidateRow.candidate)
        .correlate(CandidateRow)
        .scalar_subquery()
    )
    called = (
        select(func.max(ImplementerCallRow.at))
        .where(same_rollout(ImplementerCallRow, CandidateRow), ImplementerCallRow.role != "notes")
        .correlate(CandidateRow)
        .scalar_subquery()
    )
    rows = connection.execute(
        candidates_with_experiments(
            whole.label("whole"),
            (CandidateRow.seconds + fresh).label("evaluation"),
            (CandidateRow.at - ExperimentRow.at).label("since_advice"),
            (CandidateRow.at - called).label("since_call"),
        )
        .where(*driven)
        .order_by(CandidateRow.candidate.desc())
        .limit(limit)
    ).all()
    rollouts = [
        RolloutTimes(row.whole, row.evaluation, _least(row.since_advice, row.since_call)) for row in reversed(rows)
    ]
    resumed = (
        select(func.max(begun.at))
        .where(begun.run_id == run_id, begun.state == "running", begun.at < CandidateRow.at)
        .correlate(CandidateRow)
        .scalar_subquery()
    )
    here = case((resumed > LeaseRow.opened_at, CandidateRow.at - resumed), else_=whole)
    busy = (
        select(func.sum(here))
        .select_from(CandidateRow)
        .join(LeaseRow, same_rollout(LeaseRow, CandidateRow))
        .where(of_run, CandidateRow.lease.is_not(None))
    )
    candidates = select(func.count()).where(of_run, CandidateRow.lease.is_not(None))
    learning = select(GroupRow.seconds).where(GroupRow.run_id == run_id, GroupRow.state == "trained")
    push = select(VersionRow.seconds).where(
        VersionRow.run_id == run_id, VersionRow.version > 0, VersionRow.seconds.is_not(None)
    )
    return Timings(
        candidates=connection.execute(candidates).scalar_one(),
        busy=connection.execute(busy).scalar_one() or 0.0,
        rollouts=tuple(rollouts),
        learning=connection.execute(learning.order_by(GroupRow.group_number.desc()).limit(1)).scalar() or 0.0,
        push=connection.execute(push.order_by(VersionRow.version.desc()).limit(1)).scalar() or 0.0,
        driven=driven_seconds(connection, run_id),
        answers=_answers(connection, run_id),
    )


def _least(*seconds: float | None) -> float:
    return min((duration for duration in seconds if duration is not None), default=0.0)


def driven_seconds(connection: Connection, run_id: int) -> float:
    """Seconds in which a process drove the run: of each process what its screen shows, from the beginning of its search
    to its end. A process without a recorded end counts up to the last candidate."""
    return sum(until - since for since, until in driven_spans(connection, run_id))


def driven_spans(connection: Connection, run_id: int) -> list[tuple[float, float]]:
    """When each process began and ended to drive the run, in seconds since the epoch, oldest first."""
    states = connection.execute(
        select(RunStateRow.state, RunStateRow.at).where(RunStateRow.run_id == run_id).order_by(RunStateRow.number)
    )
    spans: list[tuple[float, float]] = []
    since = None
    for state, at in states:
        if state == "running":
            since = at
        elif state != "draining" and since is not None:
            spans.append((since, at))
            since = None
    last = connection.execute(select(func.max(CandidateRow.at)).where(CandidateRow.run_id == run_id)).scalar()
    if since is not None and last is not None:
        spans.append((since, max(since, last)))
    return spans


def _answers(connection: Connection, run_id: int) -> tuple[bool, ...]:
    """Of each of the newest calls, oldest first, whether it got an answer. The newest are those of the newest leases,
    whose key is an index. Calls that the run gave up itself, or by dying, are not among them."""
    call, answer = ImplementerCallRow, ImplementerTryRow
    has_answer = exists().where(answer.run_id == run_id, answer.lease == call.lease, answer.ordinal == call.ordinal)
    newest = (
        select(call.outcome, call.completion_tokens, has_answer.label("kept"))
        .where(call.run_id == run_id, call.role != "notes", call.outcome.not_in((GIVEN_UP, CUT_OFF)))
        .order_by(call.lease.desc(), call.ordinal.desc())
        .limit(CALLS_COUNTED)
    )
    rows = connection.execute(newest).all()
    return tuple(row.kept or was_answered(row.outcome, row.completion_tokens) for row in reversed(rows))


@dataclass(frozen=True, slots=True)
class FinishedRollout:
    """A complete rollout of a run whose fresh tries took no time: its seconds, those between advice and evaluation, its
    completion and its lease's closing."""

    whole: float
    evaluation: float
    waited: float
    at: float
    state: str
    staleness: int | None
    outcome: str


def finished_rollouts(connection: Connection, run_id: int) -> list[FinishedRollout]:
    """Every complete rollout, by lease."""
    rows = connection.execute(
        candidates_with_experiments(
            (CandidateRow.at - LeaseRow.opened_at).label("whole"),
            CandidateRow.seconds.label("evaluation"),
            (CandidateRow.at - ExperimentRow.at - CandidateRow.seconds).label("waited"),
            CandidateRow.at,
            LeaseRow.state,
            LeaseRow.staleness,
            CandidateRow.outcome,
        )
        .where(CandidateRow.run_id == run_id, ExperimentRow.lease.is_not(None))
        .order_by(CandidateRow.candidate)
    )
    return [FinishedRollout(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class AttemptedSeconds:
    """All attempts of a run's evaluations that ended in one way: `lost` are those with infrastructure_error. `seconds`
    are those in a slot, `queue_seconds` those before it."""

    lost: bool
    attempts: int
    seconds: float
    queue_seconds: float


def attempted_seconds(connection: Connection, run_id: int) -> tuple[AttemptedSeconds, AttemptedSeconds]:
    """The attempts that were not lost, and those that were."""
    lost = EvaluationAttemptRow.outcome == "infrastructure_error"
    columns = func.count(), func.sum(EvaluationAttemptRow.seconds), func.sum(EvaluationAttemptRow.queue_seconds)
    totals = {
        bool(row[0]): AttemptedSeconds(bool(row[0]), row[1], row[2], row[3])
        for row in connection.execute(
            select(lost, *columns).where(EvaluationAttemptRow.run_id == run_id).group_by(lost)
        )
    }
    ended, cut = (totals.get(is_lost, AttemptedSeconds(is_lost, 0, 0.0, 0.0)) for is_lost in (False, True))
    return ended, cut


def aborted_leases(connection: Connection, run_id: int) -> int:
    """How many rollouts were given up."""
    aborted = LeaseRow.run_id == run_id, LeaseRow.state == "aborted"
    return connection.execute(select(func.count()).select_from(LeaseRow).where(*aborted)).scalar_one()


def recorded_seconds(connection: Connection, run_id: int) -> RecordedSeconds:
    """The stage durations of a recorded run."""

    def pairs(statement: str) -> Iterator[tuple[float | None, ...]]:
        return (tuple(row) for row in connection.execute(text(statement), {"run_id": run_id}))

    evaluations = connection.execute(
        select(CandidateRow.candidate, CandidateRow.lease, CandidateRow.seconds)
        .where(CandidateRow.run_id == run_id)
        .order_by(CandidateRow.candidate)
    ).all()
    fresh = connection.execute(
        select(FreshScoreRow.candidate, FreshScoreRow.seed, FreshScoreRow.seconds)
        .join(
            CandidateRow,
            and_(CandidateRow.run_id == FreshScoreRow.run_id, CandidateRow.candidate == FreshScoreRow.candidate),
        )
        .where(FreshScoreRow.run_id == run_id)
        .order_by(CandidateRow.at, FreshScoreRow.number)
    )
    [(advising, implementing)] = pairs(
        """SELECT AVG(e.at - l.opened_at), COALESCE((SELECT SUM(seconds) FROM implementer_calls
                  WHERE run_id = :run_id AND role = 'implementer'), 0) / COUNT(*)
           FROM experiments e JOIN leases l ON l.run_id = e.run_id AND l.lease = e.lease WHERE e.run_id = :run_id"""
    )
    [(learning,)] = pairs("SELECT AVG(ended_at - shipped_at) FROM groups WHERE run_id = :run_id AND state = 'trained'")
    [(pushing,)] = pairs(
        """SELECT AVG(seconds) FROM versions
           WHERE run_id = :run_id AND group_number IS NOT NULL AND state = 'published'"""
    )
    return RecordedSeconds(
        evaluations=tuple((row.candidate, row.seconds) for row in evaluations if row.lease is not None),
        own=sum(row.seconds for row in evaluations if row.lease is None),
        fresh=tuple((row.candidate, row.seed, row.seconds) for row in fresh),
        advising=float(advising or 0.0),
        implementing=float(implementing or 0.0),
        learning=float(learning or 0.0),
        pushing=float(pushing or 0.0),
    )
