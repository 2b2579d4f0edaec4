"""The views that a person reads: leaderboard, lineage, staleness, spend, progress.

docs/sql.md says what each column means. One SQL text serves SQLite and PostgreSQL; what differs is in `_dialect`.
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# CROSS JOIN keeps SQLite to this order of tables: it walks the rank index and stops at a LIMIT, however long the run.
LEADERBOARD = """
CREATE VIEW leaderboard AS
SELECT r.name AS run, k.place AS rank, c.candidate, c.island, c.score, c.reward,
       i.description AS idea, e.description AS experiment, c.mechanism, c.parent,
       l.oldest_version AS policy_version, l.staleness,
       COALESCE((SELECT SUM(p.cost_usd) FROM implementer_calls p
                 WHERE p.run_id = c.run_id AND p.lease = c.lease), 0.0) AS cost_usd,
       {created} AS created
FROM (SELECT run_id, candidate,
             ROW_NUMBER() OVER (PARTITION BY run_id ORDER BY merit DESC, candidate) AS place
      FROM candidates WHERE merit IS NOT NULL) k
CROSS JOIN candidates c
CROSS JOIN runs r
LEFT JOIN leases l ON l.run_id = c.run_id AND l.lease = c.lease
LEFT JOIN experiments e ON e.run_id = c.run_id AND e.lease = c.lease
LEFT JOIN ideas i ON i.run_id = e.run_id AND i.island = e.island AND i.idea = e.idea
WHERE c.run_id = k.run_id AND c.candidate = k.candidate AND r.run_id = k.run_id
"""

LINEAGE = """
CREATE VIEW lineage AS
WITH RECURSIVE line(run_id, candidate, ancestor, depth) AS (
    SELECT run_id, candidate, parent, 1 FROM candidates WHERE parent IS NOT NULL
    UNION ALL
    SELECT line.run_id, line.candidate, c.parent, line.depth + 1
    FROM line JOIN candidates c ON c.run_id = line.run_id AND c.candidate = line.ancestor
    WHERE c.parent IS NOT NULL
)
SELECT r.name AS run, line.candidate, line.depth, line.ancestor, c.score, c.island, c.mechanism,
       e.description AS experiment
FROM line
JOIN runs r ON r.run_id = line.run_id
JOIN candidates c ON c.run_id = line.run_id AND c.candidate = line.ancestor
LEFT JOIN experiments e ON e.run_id = c.run_id AND e.lease = c.lease
"""

STALENESS = """
CREATE VIEW staleness AS
SELECT r.name AS run, l.group_number, l.trained_by AS update_number, l.lease, l.oldest_version, l.staleness
FROM leases l JOIN runs r ON r.run_id = l.run_id
WHERE l.state = 'trained'
"""

SPEND = """
CREATE VIEW spend AS
SELECT r.name AS run, 'advisor' AS role, r.advisor AS model, COUNT(*) AS calls,
       SUM(a.prompt_tokens) AS prompt_tokens, SUM(a.completion_tokens) AS completion_tokens,
       SUM(a.seconds) AS seconds, 0.0 AS usd
FROM advisor_calls a JOIN runs r ON r.run_id = a.run_id
GROUP BY r.run_id, r.name, r.advisor
UNION ALL
SELECT r.name, 'implementer', p.model, COUNT(*), SUM(p.prompt_tokens), SUM(p.completion_tokens),
       SUM(p.seconds), SUM(p.cost_usd)
FROM implementer_calls p JOIN runs r ON r.run_id = p.run_id
GROUP BY r.run_id, r.name, p.model
"""

PROGRESS = """
CREATE VIEW progress AS
SELECT r.name AS run, s.place AS completed, s.candidate, s.outcome, s.score,
       CASE WHEN r.direction = 'maximize' THEN s.top ELSE -s.top END AS best_so_far, s.at
FROM (SELECT run_id, candidate, outcome, score, at,
             ROW_NUMBER() OVER (PARTITION BY run_id ORDER BY at, candidate) AS place,
             MAX(merit) OVER (PARTITION BY run_id ORDER BY at, candidate) AS top
      FROM candidates) s
JOIN runs r ON r.run_id = s.run_id
"""

VIEWS = {
    "leaderboard": LEADERBOARD,
    "lineage": LINEAGE,
    "staleness": STALENESS,
    "spend": SPEND,
    "progress": PROGRESS,
}


def _dialect(statement: str) -> str:
    if op.get_bind().dialect.name == "sqlite":
        return statement.replace("{created}", "strftime('%Y-%m-%dT%H:%M:%SZ', c.at, 'unixepoch')")
    stamp = """to_char(to_timestamp(c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""
    return statement.replace("{created}", stamp)


def upgrade() -> None:
    for statement in VIEWS.values():
        op.get_bind().exec_driver_sql(_dialect(statement))


def downgrade() -> None:
    for name in VIEWS:
        op.get_bind().exec_driver_sql(f"DROP VIEW {name}")
