"""Indexes and views that keep a long run readable, and what the event loop's longest turns took.

A program's ancestors are followed for the candidate that is asked for, not for all. On SQLite the columns of the
leaderboard are looked up for the rows that are shown: an order by rank has no use for the others. PostgreSQL puts such
columns off by itself. docs/sql.md says what each column means.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

INDEXED = (("candidates", "lease"), ("groups", "update_number"), ("versions", "group_number"))
GAUGES = ("longest_stall_ms", "longest_turn_cpu_ms")

SQLITE_LINEAGE = """
CREATE VIEW lineage AS
SELECT r.name AS run, k.candidate, a.key + 1 AS depth, a.value AS ancestor, c.score, c.island, c.mechanism,
       e.description AS experiment
FROM runs r
CROSS JOIN candidates k
CROSS JOIN json_each((
    WITH RECURSIVE line(ancestor) AS (
        SELECT k.parent
        UNION ALL
        SELECT p.parent FROM line JOIN candidates p ON p.run_id = k.run_id AND p.candidate = line.ancestor
    )
    SELECT json_group_array(ancestor) FROM line WHERE ancestor IS NOT NULL)) a
CROSS JOIN candidates c
LEFT JOIN experiments e ON e.run_id = c.run_id AND e.lease = c.lease
WHERE k.run_id = r.run_id AND c.run_id = k.run_id AND c.candidate = a.value
"""

POSTGRES_LINEAGE = """
CREATE VIEW lineage AS
SELECT r.name AS run, k.candidate, a.depth, a.ancestor, c.score, c.island, c.mechanism, e.description AS experiment
FROM runs r
JOIN candidates k ON k.run_id = r.run_id
CROSS JOIN LATERAL (
    WITH RECURSIVE line(ancestor, depth) AS (
        SELECT k.parent, 1 WHERE k.parent IS NOT NULL
        UNION ALL
        SELECT p.parent, line.depth + 1
        FROM line JOIN candidates p ON p.run_id = k.run_id AND p.candidate = line.ancestor
        WHERE p.parent IS NOT NULL
    )
    SELECT ancestor, depth FROM line) a
JOIN candidates c ON c.run_id = k.run_id AND c.candidate = a.ancestor
LEFT JOIN experiments e ON e.run_id = c.run_id AND e.lease = c.lease
"""

LINEAGE_BEFORE = """
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

# CROSS JOIN keeps SQLite to this order of tables: it walks the rank index and stops at a LIMIT, however long the run.
LEADERBOARD = """
CREATE VIEW leaderboard AS
SELECT r.name AS run, k.place AS rank, c.candidate, c.island, c.score, c.reward,
       (SELECT i.description FROM experiments e
        JOIN ideas i ON i.run_id = e.run_id AND i.island = e.island AND i.idea = e.idea
        WHERE e.run_id = c.run_id AND e.lease = c.lease) AS idea,
       (SELECT e.description FROM experiments e WHERE e.run_id = c.run_id AND e.lease = c.lease) AS experiment,
       c.mechanism, c.parent,
       (SELECT l.oldest_version FROM leases l WHERE l.run_id = c.run_id AND l.lease = c.lease) AS policy_version,
       (SELECT l.staleness FROM leases l WHERE l.run_id = c.run_id AND l.lease = c.lease) AS staleness,
       COALESCE((SELECT SUM(p.cost_usd) FROM implementer_calls p
                 WHERE p.run_id = c.run_id AND p.lease = c.lease), 0.0) AS cost_usd,
       strftime('%Y-%m-%dT%H:%M:%SZ', c.at, 'unixepoch') AS created,
       (SELECT p.model FROM implementer_calls p WHERE p.run_id = c.run_id AND p.lease = c.lease
        ORDER BY p.ordinal DESC LIMIT 1) AS implementer
FROM (SELECT run_id, candidate,
             ROW_NUMBER() OVER (PARTITION BY run_id ORDER BY merit DESC, candidate) AS place
      FROM candidates WHERE merit IS NOT NULL) k
CROSS JOIN candidates c
CROSS JOIN runs r
WHERE c.run_id = k.run_id AND c.candidate = k.candidate AND r.run_id = k.run_id
"""

LEADERBOARD_BEFORE = """
CREATE VIEW leaderboard AS
SELECT r.name AS run, k.place AS rank, c.candidate, c.island, c.score, c.reward,
       i.description AS idea, e.description AS experiment, c.mechanism, c.parent,
       l.oldest_version AS policy_version, l.staleness,
       COALESCE((SELECT SUM(p.cost_usd) FROM implementer_calls p
                 WHERE p.run_id = c.run_id AND p.lease = c.lease), 0.0) AS cost_usd,
       strftime('%Y-%m-%dT%H:%M:%SZ', c.at, 'unixepoch') AS created,
       (SELECT p.model FROM implementer_calls p WHERE p.run_id = c.run_id AND p.lease = c.lease
        ORDER BY p.ordinal DESC LIMIT 1) AS implementer
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


def upgrade() -> None:
    sqlite = op.get_bind().dialect.name == "sqlite"
    for column in GAUGES:
        op.add_column("runs", sa.Column(column, sa.Double(), nullable=True))
    for table, column in INDEXED:
        op.create_index(f"ix_{table}_run_id_{column}", table, ["run_id", column])
    taken = sa.text("origin IS NOT NULL")
    op.create_index("ix_ideas_taken", "ideas", ["run_id", "lease"], sqlite_where=taken, postgresql_where=taken)
    _replace("lineage", SQLITE_LINEAGE if sqlite else POSTGRES_LINEAGE)
    if sqlite:
        _replace("leaderboard", LEADERBOARD)


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _replace("leaderboard", LEADERBOARD_BEFORE)
    _replace("lineage", LINEAGE_BEFORE)
    op.drop_index("ix_ideas_taken", "ideas")
    for table, column in reversed(INDEXED):
        op.drop_index(f"ix_{table}_run_id_{column}", table)
    for column in reversed(GAUGES):
        op.drop_column("runs", column)


def _replace(view: str, statement: str) -> None:
    op.get_bind().exec_driver_sql(f"DROP VIEW {view}")
    op.get_bind().exec_driver_sql(statement)
