"""The rows that `pace export` writes: one select for each kind, read a few hundred rows at a time.

Invariant: rows come in a fixed order. Each is one candidate, rollout, idea or update. At most `BATCH` rows are in
memory for any length of run. Nothing here writes.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from sqlalchemy import Connection, Executable, Text, bindparam, select, text

from pace_async.population.models import CandidateRow
from pace_async.population.reading.candidates import candidates_with_experiments, columns
from pace_async.population.reading.front import front_of_run, refuse_unless_several
from pace_async.population.reading.load import header_of
from pace_async.population.reading.programs import whole
from pace_async.population.reading.read_spending import unpriced_of

BATCH = 500
Kind = Literal["candidates", "rollouts", "ideas", "updates", "front"]

_CANDIDATES = (
    *("candidate", "island", "parent", "outcome", "score", "reward", "mechanism", "idea", "experiment", "detail"),
    *("seconds", "memoised", "policy_version", "staleness", "cost_usd", "metrics", "program_hash", "at"),
)
_STATEMENTS: Mapping[Kind, str] = {
    "rollouts": """
SELECT l.lease, l.island, l.stage, l.state, l.reason, l.admitted_version, l.deadline, l.oldest_version,
       l.group_number, l.staleness, c.reward, l.group_reward, l.advantage, l.trained_by,
       (SELECT COUNT(*) FROM advisor_calls a WHERE a.run_id = l.run_id AND a.lease = l.lease) AS advisor_calls,
       (SELECT SUM(a.prompt_tokens) FROM advisor_calls a WHERE a.run_id = l.run_id AND a.lease = l.lease)
           AS prompt_tokens,
       (SELECT SUM(a.completion_tokens) FROM advisor_calls a WHERE a.run_id = l.run_id AND a.lease = l.lease)
           AS completion_tokens,
       (SELECT a.text FROM advisor_calls a WHERE a.run_id = l.run_id AND a.lease = l.lease AND a.purpose = 'propose'
        ORDER BY a.ordinal LIMIT 1) AS proposed,
       (SELECT a.text FROM advisor_calls a WHERE a.run_id = l.run_id AND a.lease = l.lease AND a.purpose = 'assess'
        ORDER BY a.ordinal LIMIT 1) AS assessed,
       (SELECT a.text FROM advisor_calls a WHERE a.run_id = l.run_id AND a.lease = l.lease AND a.purpose = 'select'
        ORDER BY a.ordinal LIMIT 1) AS selected,
       CASE WHEN EXISTS (SELECT 1 FROM implementer_calls p
                         WHERE p.run_id = l.run_id AND p.lease = l.lease AND p.role IN :unpriced
                         AND p.role <> 'notes' AND p.cost_usd = 0 AND p.prompt_tokens + p.completion_tokens > 0)
            THEN NULL
            ELSE COALESCE((SELECT SUM(p.cost_usd) FROM implementer_calls p
                           WHERE p.run_id = l.run_id AND p.lease = l.lease AND p.role <> 'notes'), 0.0)
       END AS cost_usd,
       l.opened_at, l.closed_at
FROM leases l
LEFT JOIN candidates c ON c.run_id = l.run_id AND c.lease = l.lease
WHERE l.run_id = :run_id ORDER BY l.lease""",
    "ideas": """
SELECT i.island, i.idea, i.description, i.lease AS proposed_by, COALESCE(p.proposals, 0) AS proposals,
       COALESCE(t.experiments, 0) AS experiments, t.best_score
FROM ideas i
LEFT JOIN (SELECT island, idea, COUNT(*) AS proposals FROM proposals WHERE run_id = :run_id
           GROUP BY island, idea) p ON p.island = i.island AND p.idea = i.idea
LEFT JOIN (SELECT e.island, e.idea, COUNT(*) AS experiments,
                  CASE WHEN r.direction = 'maximize' THEN MAX(c.score) ELSE MIN(c.score) END AS best_score
           FROM experiments e
           JOIN runs r ON r.run_id = e.run_id
           LEFT JOIN candidates c ON c.run_id = e.run_id AND c.candidate = e.lease
                AND c.merit IS NOT NULL
           WHERE e.run_id = :run_id AND e.idea IS NOT NULL
           GROUP BY e.island, e.idea, r.direction) t ON t.island = i.island AND t.idea = i.idea
WHERE i.run_id = :run_id ORDER BY i.island, i.idea""",
    "updates": """
SELECT g.group_number, g.update_number, g.state, g.reason, g.alpha,
       (SELECT COUNT(*) FROM leases l WHERE l.run_id = g.run_id AND l.group_number = g.group_number) AS rollouts,
       (SELECT AVG(l.group_reward) FROM leases l WHERE l.run_id = g.run_id AND l.group_number = g.group_number)
           AS mean_reward,
       (SELECT MAX(l.staleness) FROM leases l WHERE l.run_id = g.run_id AND l.group_number = g.group_number)
           AS max_staleness,
       g.loss, g.entropy, g.grad_norm, g.clip_fraction, g.ess, g.k3, g.mean_ratio, g.seconds, v.version,
       v.published_at, v.paused_seconds, g.metrics, g.digest, g.shipped_at, g.ended_at
FROM groups g LEFT JOIN versions v ON v.run_id = g.run_id AND v.group_number = g.group_number
WHERE g.run_id = :run_id ORDER BY g.group_number""",
}


def stream(connection: Connection, run_id: int, kind: Kind) -> Iterator[dict[str, Any]]:
    """Rows of one kind, column name to value, as they are read."""
    unpriced = unpriced_of(connection, run_id)
    if kind in ("candidates", "front"):
        selection = columns(*_CANDIDATES, unpriced=unpriced)
        chosen = candidates_with_experiments(*selection).where(CandidateRow.run_id == run_id)
        if kind == "front":
            front = front_of_run(connection, run_id)
            refuse_unless_several(front, header_of(connection, run_id).name)
            chosen = chosen.where(CandidateRow.candidate.in_([program.candidate for program in front.programs]))
        return _rows(connection, chosen.order_by(CandidateRow.candidate))
    statement = text(_STATEMENTS[kind])
    if kind == "rollouts":
        statement = statement.bindparams(bindparam("unpriced", sorted(unpriced), type_=Text, expanding=True))
    return _rows(connection, statement.bindparams(run_id=run_id))


def programs(connection: Connection, run_id: int) -> Iterator[dict[str, Any]]:
    """candidate, score, outcome, program of every candidate that has a program."""
    statement = select(CandidateRow.candidate, CandidateRow.score, CandidateRow.outcome, CandidateRow.program)
    written = statement.where(CandidateRow.run_id == run_id, CandidateRow.program.is_not(None))
    for row in _rows(connection, written.order_by(CandidateRow.candidate)):
        yield {**row, "program": whole(connection, run_id, row["program"])}


def _rows(connection: Connection, statement: Executable) -> Iterator[dict[str, Any]]:
    result = connection.execution_options(yield_per=BATCH).execute(statement)
    for row in result.mappings():
        yield {str(key): value for key, value in row.items()}
