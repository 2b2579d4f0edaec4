"""What a screen shows of a run that goes on: the view an uninterrupted process would have, as far as rows tell."""

from dataclasses import replace

from pace_async.config import Stop
from pace_async.observe.model import Best, LearnerView, Leases, RunView
from pace_async.population.base import Population
from pace_async.population.record import RunRecord


async def view_of(record: RunRecord, stop: Stop, population: Population) -> RunView:
    """The view before the first event of this process."""
    view = RunView(header=record.header, stop=stop, spend_usd=record.spend_usd)
    if record.seed_program is not None:
        view = replace(view, seed_score=record.seed_program.score, best=await _best(record, population))
    if not record.admitted:
        return view
    key = {"run_id": record.run_id}
    ages = await population.query(
        "select staleness, count(*) n from leases where run_id = :run_id and state = 'trained' group by staleness", key
    )
    outcomes = await population.query(
        "select outcome, count(*) n from candidates where run_id = :run_id and candidate > 0 group by outcome", key
    )
    groups = await population.query("select state, count(*) n from groups where run_id = :run_id group by state", key)
    ended = {str(row["state"]): int(row["n"]) for row in groups}
    stages = [lease.stage for lease in record.leases]
    return replace(
        view,
        candidates=record.candidates,
        outcomes={str(row["outcome"]): int(row["n"]) for row in outcomes},
        staleness={int(row["staleness"]): int(row["n"]) for row in ages},
        leases=Leases(
            admitted=record.admitted,
            buffered=stages.count("complete"),
            training=stages.count("shipped"),
            trained=record.closings["trained"],
            skipped=record.closings["skipped"],
            aborted=record.closings["aborted"],
            expired=record.closings["expired"],
        ),
        learner=LearnerView(
            trained=ended.get("trained", 0),
            skipped=ended.get("skipped", 0),
            version=record.version,
            published=record.published,
        ),
    )


async def _best(record: RunRecord, population: Population) -> Best | None:
    if record.best is None:
        return None
    rows = await population.query(
        """
        select c.island, c.at, e.description,
               (select count(*) from candidates b where b.run_id = c.run_id and b.candidate > 0 and b.at <= c.at) place
        from candidates c left join experiments e on e.run_id = c.run_id and e.lease = c.lease
        where c.run_id = :run_id and c.candidate = :candidate
        """,
        {"run_id": record.run_id, "candidate": record.best.candidate},
    )
    row = rows[0]
    return Best(
        candidate=record.best.candidate,
        score=record.best.score,
        island=row["island"] or 0,
        experiment=row["description"] or "",
        after=row["place"],
        at=row["at"],
    )
