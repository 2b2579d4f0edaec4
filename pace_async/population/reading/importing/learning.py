"""The steps of groups and versions, of evaluation epochs, and of the run as a whole."""

from collections import defaultdict
from collections.abc import Iterator
from math import nan
from typing import Any

from sqlalchemy import Connection, func, select

from pace_async.events import (
    EpochInForce,
    FaultSeen,
    GroupEnded,
    GroupShipped,
    IdeaGiven,
    LoopMeasured,
    ProgramGiven,
    RescoreBegan,
    Rescored,
    RunStateChanged,
    SettingChanged,
    Steered,
    VersionPublished,
)
from pace_async.population.fields import NAMED_METRICS, fact_of
from pace_async.population.models import (
    CandidateRow,
    EpochScoreRow,
    EvaluationEpochRow,
    FaultRow,
    GivenIdeaRow,
    GivenProgramRow,
    GroupRow,
    InboxRow,
    LeaseRow,
    RunRow,
    RunStateRow,
    SettingChangeRow,
    SteeringRow,
    VersionRow,
)
from pace_async.population.reading.importing.order import LAST, Step
from pace_async.population.reading.programs import whole_or_none


def steps_of_groups(connection: Connection, run_id: int) -> Iterator[Step]:
    """The groups and the versions that they made, in no order."""
    # of each group, (lease, staleness, reward, advantage)
    members: defaultdict[int | None, list[tuple[Any, ...]]] = defaultdict(list)
    columns = (LeaseRow.group_number, LeaseRow.lease, LeaseRow.staleness, LeaseRow.group_reward, LeaseRow.advantage)
    shipped = select(*columns).where(LeaseRow.run_id == run_id, LeaseRow.group_number.is_not(None))
    for number, *member in connection.execute(shipped.order_by(LeaseRow.lease)):
        members[number].append(tuple(member))
    versions = {row.group_number: row for row in connection.execute(_of_run(VersionRow, run_id))}
    for row in connection.execute(_of_run(GroupRow, run_id)).all():
        number, version = row.group_number, versions.get(row.group_number)
        leases, staleness, rewards, advantages = zip(*members[number], strict=True) if members[number] else ((),) * 4
        fact = GroupShipped(
            *(number, row.update_number, leases, staleness, rewards, None if None in advantages else advantages),
            *(row.alpha, row.digest, row.shipped_at, row.restores, row.rate),
        )
        before = (("group ended", number - 1, 0), *(("ended", lease, 0) for lease in leases))
        yield Step(("group shipped", number, 0), row.shipped_at, 0, fact, before)
        if row.state == "shipped":
            continue
        named_metrics = {name: getattr(row, name) for name in NAMED_METRICS if getattr(row, name) is not None}
        ended = GroupEnded(
            *(number, row.update_number, leases, row.state, row.reason),
            *(row.update_number if version is None else version.version, None if version is None else version.weights),
            *(
                {**row.metrics, **named_metrics},
                row.seconds,
                row.ended_at,
                None if version is None else version.restored,
            ),
        )
        yield Step(("group ended", number, 0), row.ended_at, 0, ended, (("group shipped", number, 0),))
    for row in versions.values():
        if row.state == "published":
            published = VersionPublished(
                row.version, row.seconds, row.paused_seconds, row.receipt, row.published_at, row.probe_k3
            )
            after = (("group ended", row.group_number or 0, 0), ("published", row.version - 1, 0))
            yield Step(("published", row.version, 0), row.published_at, 0, published, after)


def steps_of_epochs(connection: Connection, run_id: int) -> Iterator[Step]:
    """What was scored again, and when it came into force, in no order. A score that was kept when the next epoch came
    into force has its candidate's own time, and was no fact."""
    scored: defaultdict[int, list[int]] = defaultdict(list)
    row = EpochScoreRow
    again = (
        select(EpochScoreRow)
        .join(CandidateRow, (CandidateRow.run_id == row.run_id) & (CandidateRow.candidate == row.candidate))
        .where(row.run_id == run_id, row.epoch > 0, row.at != CandidateRow.at)
    )
    for score in connection.execute(again).all():
        fact = fact_of(Rescored, row, score, queue_seconds=score.queue_seconds or 0.0)
        scored[score.epoch].append(score.candidate)
        after = (("rescore began", score.epoch, 0), ("ended", score.candidate, 0))
        yield Step(("rescored", score.epoch, score.candidate), score.at, 0, fact, after)
    leases = connection.execute(select(LeaseRow.lease).where(LeaseRow.run_id == run_id)).scalars().all()
    for epoch in connection.execute(_of_run(EvaluationEpochRow, run_id)).all():
        began = fact_of(RescoreBegan, EvaluationEpochRow, epoch, at=epoch.began_at)
        yield Step(
            ("rescore began", epoch.epoch, 0), epoch.began_at, 0, began, (("rescore began", epoch.epoch - 1, 0),)
        )
        if epoch.last_lease is None:
            continue
        before = [("rescore began", epoch.epoch, 0), ("in force", epoch.epoch - 1, 0)]
        before += [("rescored", epoch.epoch, candidate) for candidate in scored[epoch.epoch]]
        before += [("ended", lease, 0) for lease in leases if lease <= epoch.last_lease]
        in_force = EpochInForce(epoch.epoch, epoch.last_lease, epoch.in_force_at)
        yield Step(("in force", epoch.epoch, 0), epoch.in_force_at, LAST, in_force, tuple(before))


def steps_of_run(connection: Connection, run_id: int) -> Iterator[Step]:
    """The run's states, settings and faults, in no order. Of the turns of the event loop only the longest are
    kept. They get the time of the newest state."""
    run = connection.execute(_of_run(RunRow, run_id)).one()
    newest = run.created_at
    for row in connection.execute(_of_run(RunStateRow, run_id)):
        fact = fact_of(RunStateChanged, RunStateRow, row)
        begins = row.state == "running"
        yield Step(("state", row.number, 0), row.at, 0 if begins else LAST, fact, (("state", row.number - 1, 0),))
        newest = max(newest, row.at)
    for row in connection.execute(_of_run(SettingChangeRow, run_id)):
        changed = fact_of(SettingChanged, SettingChangeRow, row)
        yield Step(("setting", row.number, 0), row.at, 0, changed, (("setting", row.number - 1, 0),))
    for row in connection.execute(_of_run(GivenIdeaRow, run_id)):
        idea = IdeaGiven(row.entry, row.description, row.after, row.at)
        yield Step(("given", row.entry, 0), row.at, 0, idea, (("opened", row.after, 0),))
    for row in connection.execute(_of_run(SteeringRow, run_id)):
        word = fact_of(Steered, SteeringRow, row)
        about = (("ended", row.number, 0),) if row.subject == "candidate" else ()
        yield Step(("steered", row.entry, 0), row.at, 0, word, (("opened", row.after, 0), *about))
    for row in connection.execute(_of_run(GivenProgramRow, run_id)):
        statement = select(CandidateRow.program).where(
            CandidateRow.run_id == run_id, CandidateRow.candidate == row.lease
        )
        program = whole_or_none(connection, run_id, connection.execute(statement).scalar_one_or_none())
        if program is None:
            entry = select(InboxRow.program).where(InboxRow.run_id == run_id, InboxRow.entry == row.entry)
            program = connection.execute(entry).scalar_one_or_none() or ""
        fact = ProgramGiven(row.lease, row.entry, program, row.about, row.at)
        yield Step(("program given", row.entry, 0), row.at, row.lease, fact, (("opened", row.lease, 0),), texts=True)
    for row in connection.execute(_of_run(FaultRow, run_id)):
        fault = FaultSeen(row.stage, row.kind, row.detail, row.lease, row.at)
        after = (("fault", row.number - 1, 0), ("opened", row.lease or 0, 0))
        yield Step(("fault", row.number, 0), row.at, 0, fault, after)
    if run.longest_stall_ms is not None or run.longest_turn_cpu_ms is not None:
        stall, turn = (nan if each is None else each for each in (run.longest_stall_ms, run.longest_turn_cpu_ms))
        yield Step(("measured", 0, 0), newest, LAST, LoopMeasured(stall, turn, newest))


def first_bound(connection: Connection, run_id: int) -> int:
    """The staleness bound with which the run began, which a resume may have raised."""
    row = SettingChangeRow
    raised = select(row.before).where(row.run_id == run_id, row.key == "staleness.max_staleness")
    before = connection.execute(raised.order_by(row.number).limit(1)).scalar_one_or_none()
    if before is not None:
        return int(before)
    return connection.execute(select(func.max(RunRow.max_staleness)).where(RunRow.run_id == run_id)).scalar_one()


def _of_run(table: Any, run_id: int) -> Any:
    return select(table).where(table.run_id == run_id).order_by(*table.__table__.primary_key.columns)
