"""What a report shows of a run, read in one go from its population. Values only; drawing is elsewhere.

Not asynchronous and not live: a report is of one moment.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pace_async.errors import UsageError
from pace_async.events import RunHeader
from pace_async.population.reader import Reader

Row = Mapping[str, Any]

_CANDIDATES = """
SELECT p.completed, p.candidate, p.outcome, p.score, p.best_so_far, p.at, c.parent, c.island, c.reward, c.mechanism,
       c.detail, i.description AS idea, e.description AS experiment
FROM progress p
JOIN runs r ON r.name = p.run
JOIN candidates c ON c.run_id = r.run_id AND c.candidate = p.candidate
LEFT JOIN experiments e ON e.run_id = c.run_id AND e.lease = c.lease
LEFT JOIN ideas i ON i.run_id = e.run_id AND i.island = e.island AND i.idea = e.idea
WHERE p.run = :run ORDER BY p.completed"""
_GROUPS = """
SELECT g.group_number, g.update_number, g.state, g.reason, g.alpha, g.loss, g.entropy, g.grad_norm, g.clip_fraction,
       g.ess, g.k3, g.seconds
FROM groups g JOIN runs r ON r.run_id = g.run_id WHERE r.name = :run ORDER BY g.group_number"""
_REWARDS = """
SELECT l.group_number, l.lease, l.group_reward AS reward, l.staleness, l.state
FROM leases l JOIN runs r ON r.run_id = l.run_id
WHERE r.name = :run AND l.group_number IS NOT NULL ORDER BY l.group_number, l.lease"""
_FAULTS = """
SELECT f.stage, f.kind, COUNT(*) AS times, MAX(f.at) AS last,
       (SELECT x.detail FROM faults x WHERE x.run_id = f.run_id AND x.stage = f.stage AND x.kind = f.kind
        ORDER BY x.number DESC LIMIT 1) AS detail
FROM faults f JOIN runs r ON r.run_id = f.run_id WHERE r.name = :run
GROUP BY f.run_id, f.stage, f.kind ORDER BY times DESC, f.stage, f.kind"""
_SPEND = "SELECT role, model, calls, prompt_tokens, completion_tokens, seconds, usd FROM spend WHERE run = :run"
_WHEN = """
SELECT r.created_at AS began, MAX(c.at) AS last FROM runs r LEFT JOIN candidates c ON c.run_id = r.run_id
WHERE r.name = :run GROUP BY r.run_id, r.created_at"""


@dataclass(frozen=True, slots=True)
class Facts:
    """`candidates` in the order of completion, the task's own program first; `groups` and `rewards` by group;
    `seed_program` and `best_program` are None while nothing has a score; times are seconds since the epoch."""

    header: RunHeader
    status: Row
    candidates: tuple[Row, ...]
    groups: tuple[Row, ...]
    rewards: tuple[Row, ...]
    faults: tuple[Row, ...]
    spend: tuple[Row, ...]
    began: float
    last: float | None
    best: Row | None
    best_known: float | None
    seed_program: str | None

    @property
    def lineage(self) -> tuple[Row, ...]:
        """The best program and its ancestors, the task's own program first."""
        known = {row["candidate"]: row for row in self.candidates}
        line: list[Row] = []
        at = None if self.best is None else self.best["candidate"]
        while at is not None and at in known and len(line) <= len(known):
            line.append(known[at])
            at = known[at]["parent"]
        return tuple(reversed(line))


def gather(reader: Reader, best_known: float | None = None) -> Facts:
    """The only run of a population; `best_known` is the best score known of its task. Raises UsageError where there is
    no run, or several."""
    header = reader.header()
    run = {"run": header.name}
    try:
        best: Row | None = reader.best()
    except UsageError:
        best = None
    when = reader.query(_WHEN, run)[0]
    candidates = reader.query(_CANDIDATES, run)
    return Facts(
        header=header,
        status=reader.status(),
        candidates=tuple(candidates),
        groups=tuple(reader.query(_GROUPS, run)),
        rewards=tuple(reader.query(_REWARDS, run)),
        faults=tuple(reader.query(_FAULTS, run)),
        spend=tuple(reader.query(_SPEND, run)),
        began=when["began"],
        last=when["last"],
        best=best,
        best_known=best_known,
        seed_program=reader.show(0)["program"] if candidates else None,
    )
