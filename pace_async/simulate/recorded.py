"""How long the stages of a run that was made took, to simulate it in another shape.

An evaluation keeps its own time, the n-th finished lease's, with that of its tries on fresh instances and of those on
which the task's own program is scored first; of the other stages the mean is taken. What a rollout waits for beside its
evaluation (advisor, implementer) counts as its generation.
"""

from collections.abc import Callable
from typing import Any

from pace_async.errors import UsageError
from pace_async.simulate.durations import Durations

EVALUATIONS = "select candidate, seconds from candidates where lease is not null order by lease"
FRESH = """
select f.candidate, f.seed, f.seconds from fresh_scores f join candidates c on c.run_id = f.run_id
and c.candidate = f.candidate order by c.at, f.number"""
OWN = "select seconds from candidates where lease is null"
GENERATION = """
select avg(e.at - l.opened_at) as advising,
       coalesce((select sum(seconds) from implementer_calls), 0) / count(*) as implementing
from experiments e join leases l on l.run_id = e.run_id and l.lease = e.lease"""
LEARNING = "select avg(ended_at - shipped_at) as seconds from groups where state = 'trained'"
PUSHING = "select avg(seconds) as seconds from versions where group_number is not null and state = 'published'"

Query = Callable[[str], list[dict[str, Any]]]


def recorded_durations(query: Query, seed: int) -> Durations:
    """Durations of the only run behind `query`. Raises UsageError where nothing was evaluated in it."""
    fresh = _fresh_seconds(query)
    evaluations = tuple(float(row["seconds"]) + fresh.get(row["candidate"], 0.0) for row in query(EVALUATIONS))
    if not any(evaluations):
        raise UsageError("Nothing was evaluated in that run yet: give --eval-mean instead.")
    [generation], [learning], [pushing] = query(GENERATION), query(LEARNING), query(PUSHING)
    return Durations(
        seed=seed,
        evaluation_mean=sum(evaluations) / len(evaluations),
        evaluation_cv=0.0,
        evaluation_cap=None,
        generation=float(generation["advising"] or 0.0) + float(generation["implementing"]),
        learning=float(learning["seconds"] or 0.0),
        pause=float(pushing["seconds"] or 0.0),
        evaluations=evaluations,
    )


def _fresh_seconds(query: Query) -> dict[int, float]:
    """What confirming each candidate took. How long the task's own program takes on a seed is not recorded: as long as
    on the hidden instances."""
    own = sum(float(row["seconds"]) for row in query(OWN))
    seconds: dict[int, float] = {}
    scored: set[int] = set()
    for row in query(FRESH):
        first = row["seed"] not in scored
        scored.add(row["seed"])
        seconds[row["candidate"]] = seconds.get(row["candidate"], 0.0) + float(row["seconds"]) + own * first
    return seconds
