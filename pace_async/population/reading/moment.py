"""One moment of a run that another process drives, for a screen that follows it.

Invariant: all values come from one transaction. No tokens, programs or answers are read, so that looking twice a second
costs the run nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from pace_async.events import Evaluated, FaultSeen, GroupEnded, GroupShipped, RunHeader
from pace_async.population.models import (
    CandidateRow,
    ExperimentRow,
    FaultRow,
    GroupRow,
    LeaseRow,
    RunStateRow,
    VersionRow,
)
from pace_async.population.reading.candidates import OWN_IDEA
from pace_async.population.reading.load import find_run, header_of, state_of_run
from pace_async.population.reading.news import News, news_of, shipped_of
from pace_async.population.reading.progress import Progress, progress_of
from pace_async.population.reading.read_spending import changes_of, reserved_of, spend_of
from pace_async.population.reading.timings import timings_of
from pace_async.population.timings import Timings
from pace_async.search.results import headline

SERVICES = ("provider_down", "all_providers_down", "provider_back", "stage_paused", "stage_back")
"""Kinds of faults by which a service goes away or comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The run as its rows are now. `changes` are the settings that resumes changed. `started_at` is when the last
    process began to search, None before, and `changed_at` when the state last changed. `times` are those of the last
    candidates since then, of `finished` in all. `stages` has the stage of each open lease that has no score yet, by
    island. `version` is the learner's, `published` the served one. `shipped` are the groups that `news` and the learner
    are about, by number. `experiments` are those of the candidates in `news`. `services` are the
    faults since then that say which services are away or back."""

    header: RunHeader
    changes: Mapping[str, object]
    state: str
    reason: str
    started_at: float | None
    changed_at: float | None
    seed_score: float | None
    candidates: int
    finished: int
    times: tuple[float, ...]
    last_at: float
    version: int
    published: int
    training: int | None
    shipped: Mapping[int, GroupShipped]
    spend_usd: float
    reserved: Mapping[int, float]
    stages: Mapping[int, str]
    services: tuple[FaultSeen, ...]
    progress: Progress
    timings: Timings
    news: tuple[News, ...]
    experiments: Mapping[int, str]


def moment_of(connection: Connection, run: str | None, *, kept: int, times_kept: int, groups_kept: int) -> Moment:
    """The moment, with the last `kept` facts of each kind, `times_kept` times and the rewards of `groups_kept` groups.
    Raises UsageError if there is no such run."""
    run_id = find_run(connection, run)
    state, reason = state_of_run(connection, run_id)
    started, changed = _begun(connection, run_id)
    progress = progress_of(connection, run_id, groups_kept)
    better = [one.candidate for one in progress.improvements[-kept:]]
    news = news_of(connection, run_id, kept, better)
    training = connection.execute(
        select(func.max(GroupRow.group_number)).where(GroupRow.run_id == run_id, GroupRow.state == "shipped")
    ).scalar()
    times, finished = _times(connection, run_id, started, times_kept)
    seed, complete, last = _candidates(connection, run_id)
    reserved = reserved_of(connection, run_id)
    return Moment(
        header=header_of(connection, run_id),
        changes=changes_of(connection, run_id),
        state=state,
        reason=reason,
        started_at=started,
        changed_at=changed,
        seed_score=seed,
        candidates=complete,
        finished=finished,
        times=times,
        last_at=max(last, changed or 0.0),
        version=_version(connection, run_id),
        published=_version(connection, run_id, VersionRow.state == "published"),
        training=training,
        shipped=shipped_of(connection, run_id, _numbers(news, training)),
        spend_usd=spend_of(connection, run_id),
        reserved={one.number: one.cost_usd for one in reserved},
        stages=_stages(connection, run_id, {one.lease for one in reserved if one.role == "implementer"}),
        services=_services(connection, run_id, started),
        progress=progress,
        timings=timings_of(connection, run_id),
        news=news,
        experiments=_experiments(connection, run_id, news),
    )


def _begun(connection: Connection, run_id: int) -> tuple[float | None, float | None]:
    """When the last process began to search, and when the state last changed."""
    of_run = RunStateRow.run_id == run_id
    begun = select(func.max(RunStateRow.at)).where(of_run, RunStateRow.state == "running")
    changed = select(RunStateRow.at).where(of_run).order_by(RunStateRow.number.desc()).limit(1)
    return connection.execute(begun).scalar(), connection.execute(changed).scalar()


def _times(connection: Connection, run_id: int, since: float | None, kept: int) -> tuple[tuple[float, ...], int]:
    """The times of the last candidates since then, oldest first, and their number in all."""
    if since is None:
        return (), 0
    here = (CandidateRow.run_id == run_id, CandidateRow.candidate > 0, CandidateRow.at >= since)
    latest = select(CandidateRow.at).where(*here).order_by(CandidateRow.at.desc()).limit(kept)
    times = connection.execute(latest).scalars().all()
    return tuple(reversed(times)), connection.execute(select(func.count()).where(*here)).scalar_one()


def _candidates(connection: Connection, run_id: int) -> tuple[float | None, int, float]:
    """The score of the task's own program, the number of the others, and the time of the last."""
    of_run = CandidateRow.run_id == run_id
    seed = connection.execute(select(CandidateRow.score).where(of_run, CandidateRow.candidate == 0)).scalar()
    complete, last = connection.execute(
        select(func.count(), func.max(CandidateRow.at)).where(of_run, CandidateRow.candidate > 0)
    ).one()
    return seed, complete, last or 0.0


def _version(connection: Connection, run_id: int, *which: Any) -> int:
    return (
        connection.execute(select(func.max(VersionRow.version)).where(VersionRow.run_id == run_id, *which)).scalar()
        or 0
    )


def _stages(connection: Connection, run_id: int, asked: set[int]) -> dict[int, str]:
    """The stage of each island's rollout. `asked` are the leases with an implementer's call in flight."""
    leases = connection.execute(
        select(LeaseRow.island, LeaseRow.lease, LeaseRow.stage)
        .where(LeaseRow.run_id == run_id, LeaseRow.state == "open", LeaseRow.stage.in_(("admitted", "advised")))
        .order_by(LeaseRow.lease)
    )
    return {
        row.island: "advise" if row.stage == "admitted" else "implement" if row.lease in asked else "evaluate"
        for row in leases
    }


def _services(connection: Connection, run_id: int, since: float | None) -> tuple[FaultSeen, ...]:
    row = FaultRow
    told = (row.run_id == run_id, row.kind.in_(SERVICES), row.at >= (since or 0.0))
    found = connection.execute(select(row).where(*told).order_by(row.number))
    return tuple(FaultSeen(one.stage, one.kind, one.detail, one.lease, one.at) for one in found)


def _numbers(news: tuple[News, ...], training: int | None) -> set[int]:
    ended = {fact.number for fact in news if isinstance(fact, GroupEnded)}
    return ended if training is None else {*ended, training}


def _experiments(connection: Connection, run_id: int, news: tuple[News, ...]) -> dict[int, str]:
    leases = [fact.lease for fact in news if isinstance(fact, Evaluated)]
    columns = select(ExperimentRow.lease, ExperimentRow.description, OWN_IDEA)
    rows = connection.execute(columns.where(ExperimentRow.run_id == run_id, ExperimentRow.lease.in_(leases)))
    return {lease: headline(experiment, idea) for lease, experiment, idea in rows}
