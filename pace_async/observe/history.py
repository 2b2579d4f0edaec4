"""The view of a run that goes on, from its rows: what an uninterrupted process would show.

Invariant: committing facts and reading them back here gives the view that folding them gives, but for what no row keeps
(the last notes, what the threads are doing now, the last learner step's pause). Reads only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pace_async.config import Stop
from pace_async.events import GroupShipped
from pace_async.observe.fold import EXPERIMENT_CELLS
from pace_async.observe.model import GROUPS_KEPT, Best, LearnerView, Leases, RunView, thin
from pace_async.observe.text import clean
from pace_async.population.base import Population
from pace_async.population.record import RunRecord

Rows = Sequence[Mapping[str, Any]]

OUTCOMES = """
select outcome, count(*) as amount, sum(case when memoised then 1 else 0 end) as memoised
from candidates where run_id = :run_id and candidate > 0 group by outcome"""
IMPROVEMENTS = """
select s.place, s.candidate, s.score, s.island, s.at, e.description,
       (select min(f.score) from fresh_scores f
        where f.run_id = s.run_id and f.candidate = s.candidate and f.held) as fresh
from (select run_id, candidate, island, score, merit, at,
             row_number() over (order by at, candidate) - 1 as place,
             max(merit) over (order by at, candidate rows between unbounded preceding and 1 preceding) as before
      from candidates where run_id = :run_id) s
left join experiments e on e.run_id = s.run_id and e.lease = s.candidate
where s.merit is not null and (s.before is null or s.merit > s.before) order by s.place"""
LEASES = "select state, stage, count(*) as amount from leases where run_id = :run_id group by state, stage"
AGES = """
select staleness, count(*) as amount from leases where run_id = :run_id and state = 'trained' group by staleness"""
EXPERIMENTS = """
select e.lease, e.description from experiments e join leases l on l.run_id = e.run_id and l.lease = e.lease
where e.run_id = :run_id and l.state = 'open' and l.stage = 'advised'"""
GROUPS = "select state, count(*) as amount from groups where run_id = :run_id group by state"
STEPS = """
select sum(case when state = 'skipped' and restores is not null then 1 else 0 end) as rollbacks,
       sum(case when step_scale > 0 and step_scale < 1 then 1 else 0 end) as shortened,
       sum(case when step_scale = 0 then 1 else 0 end) as undone
from groups where run_id = :run_id"""
REWARDS = """
select g.group_number, avg(l.group_reward) as reward from groups g
join leases l on l.run_id = g.run_id and l.group_number = g.group_number
where g.run_id = :run_id and g.state <> 'shipped' group by g.group_number order by g.group_number desc limit :kept"""
LAST_GROUP = "select alpha from groups where run_id = :run_id order by group_number desc limit 1"
LAST_STEP = """
select loss, entropy, grad_norm, seconds
from groups where run_id = :run_id and state = 'trained' order by group_number desc limit 1"""
COUNTS = """
select (select count(*) from faults where run_id = :run_id) as faults,
       (select count(*) from implementer_calls where run_id = :run_id) as calls"""


async def view_of(record: RunRecord, stop: Stop, population: Population) -> RunView:
    """The view before the first event of this process; of a fresh run, one that knows the seed program at most."""
    key = {"run_id": record.run_id}

    async def rows(sql: str, **more: object) -> Rows:
        return await population.query(sql, {**key, **more})

    outcomes = await rows(OUTCOMES)
    improvements = await rows(IMPROVEMENTS)
    counts = (await rows(COUNTS))[0]
    return replace(
        RunView(header=record.header, stop=stop),
        seed_score=record.seed_program.score if record.seed_program is not None else None,
        best=_best(improvements),
        improvements=thin(tuple((int(row["place"]), float(row["score"])) for row in improvements)),
        candidates=record.candidates,
        outcomes={str(row["outcome"]): int(row["amount"]) for row in outcomes},
        memoised=sum(int(row["memoised"]) for row in outcomes),
        experiments={
            int(row["lease"]): clean(row["description"] or "", EXPERIMENT_CELLS) for row in await rows(EXPERIMENTS)
        },
        leases=_leases(await rows(LEASES)),
        staleness={int(row["staleness"]): int(row["amount"]) for row in await rows(AGES)},
        shipped=_latest(record.shipped),
        learner=_learner(
            record,
            {str(row["state"]): int(row["amount"]) for row in await rows(GROUPS)},
            await rows(REWARDS, kept=GROUPS_KEPT),
            await rows(LAST_GROUP),
            await rows(LAST_STEP),
            (await rows(STEPS))[0],
        ),
        spend_usd=record.spend_usd,
        implementer_calls=int(counts["calls"]),
        faults=int(counts["faults"]),
    )


def _best(improvements: Rows) -> Best | None:
    if not improvements:
        return None
    last = improvements[-1]
    return Best(
        candidate=int(last["candidate"]),
        score=float(last["score"]),
        island=int(last["island"] or 0),
        experiment=clean(last["description"] or "", EXPERIMENT_CELLS),
        after=int(last["place"]),
        at=float(last["at"]),
        fresh=None if last["fresh"] is None else float(last["fresh"]),
    )


def _leases(rows: Rows) -> Leases:
    amounts = {(str(row["state"]), str(row["stage"])): int(row["amount"]) for row in rows}

    def closed(state: str) -> int:
        return sum(amount for (named, _), amount in amounts.items() if named == state)

    return Leases(
        admitted=sum(amounts.values()),
        buffered=amounts.get(("open", "complete"), 0),
        training=amounts.get(("open", "shipped"), 0),
        trained=closed("trained"),
        skipped=closed("skipped"),
        aborted=closed("aborted"),
        expired=closed("expired"),
    )


def _latest(shipped: Sequence[GroupShipped]) -> GroupShipped | None:
    return shipped[-1] if shipped else None


def _learner(
    record: RunRecord,
    ended: Mapping[str, int],
    rewards: Rows,
    last_group: Rows,
    last_step: Rows,
    steps: Mapping[str, Any],
) -> LearnerView:
    side = LearnerView(
        trained=ended.get("trained", 0),
        skipped=ended.get("skipped", 0),
        alpha=float(last_group[0]["alpha"]) if last_group else None,
        version=record.version,
        published=record.published,
        rewards=tuple(float(row["reward"]) for row in reversed(rewards)),
        rollbacks=int(steps["rollbacks"] or 0),
        shortened=int(steps["shortened"] or 0),
        undone=int(steps["undone"] or 0),
    )
    if not last_step:
        return side
    step = last_step[0]
    named = {name: float(step[name]) for name in ("loss", "entropy", "grad_norm") if step[name] is not None}
    return replace(side, step_seconds=step["seconds"], metrics=named)
