"""The leaderboard goes by the confirmed score also where equal programs get different scores.

Otherwise the best is the luckiest of many draws. Whether a run is noisy stands in its row; runs before this one are
ranked as they were. The cost of a candidate leaves out the calls for notes, which are made for the whole run.
"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0028"
branch_labels = None
depends_on = None

ORIGIN = {
    "sqlite": """
       (SELECT i.description FROM experiments e
        JOIN ideas i ON i.run_id = e.run_id AND i.island = e.island AND i.idea = e.idea
        WHERE e.run_id = c.run_id AND e.lease = c.lease) AS idea,
       (SELECT e.description FROM experiments e WHERE e.run_id = c.run_id AND e.lease = c.lease) AS experiment,
       c.mechanism, c.parent,
       (SELECT l.oldest_version FROM leases l WHERE l.run_id = c.run_id AND l.lease = c.lease) AS policy_version,
       (SELECT l.staleness FROM leases l WHERE l.run_id = c.run_id AND l.lease = c.lease) AS staleness,""",
    "postgresql": """
       i.description AS idea, e.description AS experiment, c.mechanism, c.parent,
       l.oldest_version AS policy_version, l.staleness,""",
}
JOINED = {
    "sqlite": "",
    "postgresql": """
LEFT JOIN leases l ON l.run_id = c.run_id AND l.lease = c.lease
LEFT JOIN experiments e ON e.run_id = c.run_id AND e.lease = c.lease
LEFT JOIN ideas i ON i.run_id = e.run_id AND i.island = e.island AND i.idea = e.idea""",
}
CREATED = {
    "sqlite": "strftime('%Y-%m-%dT%H:%M:%SZ', c.at, 'unixepoch')",
    "postgresql": """to_char(to_timestamp(c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')""",
}
# By the evaluator in force: what was tried before it came into force was tried by another one.
CONFIRMED = """(SELECT f.score FROM fresh_scores f
                 WHERE f.run_id = {c}.run_id AND f.candidate = {c}.candidate AND f.held
                   AND NOT EXISTS (SELECT 1 FROM evaluation_epochs v
                                   WHERE v.run_id = f.run_id AND v.last_lease >= f.candidate)
                 ORDER BY f.number LIMIT 1)"""
RANKS = f"""SELECT run_id, candidate,
             ROW_NUMBER() OVER (PARTITION BY run_id ORDER BY merit DESC, candidate) AS place
      FROM candidates WHERE merit IS NOT NULL
        AND run_id NOT IN (SELECT run_id FROM runs WHERE {{by_confirmed}})
      UNION ALL
      SELECT run_id, candidate,
             ROW_NUMBER() OVER (PARTITION BY run_id
                                ORDER BY CASE WHEN confirmed IS NULL THEN 1 ELSE 0 END,
                                         CASE WHEN direction = 'maximize' THEN confirmed ELSE -confirmed END DESC,
                                         merit DESC, candidate) AS place
      FROM (SELECT m.run_id, m.candidate, m.merit, s.direction, {CONFIRMED.format(c="m")} AS confirmed
            FROM runs s JOIN candidates m ON m.run_id = s.run_id
            WHERE ({{by_confirmed}}) AND m.merit IS NOT NULL) tried"""
# CROSS JOIN keeps SQLite to this order of tables: it walks the ranks and stops at a LIMIT, however long the run.
LEADERBOARD = """
CREATE VIEW leaderboard AS
SELECT r.name AS run, k.place AS rank, c.candidate, c.island, c.score, c.reward,{origin}
       COALESCE((SELECT SUM(p.cost_usd) FROM implementer_calls p
                 WHERE p.run_id = c.run_id AND p.lease = c.lease AND p.role <> 'notes'), 0.0) AS cost_usd,
       {created} AS created,
       (SELECT p.model FROM implementer_calls p
        WHERE p.run_id = c.run_id AND p.lease = c.lease AND p.role = 'implementer'
        ORDER BY p.ordinal DESC LIMIT 1) AS implementer,
       {confirmed} AS confirmed
FROM ({ranks}) k
CROSS JOIN candidates c
CROSS JOIN runs r{joined}
WHERE c.run_id = k.run_id AND c.candidate = k.candidate AND r.run_id = k.run_id
"""


def upgrade() -> None:
    op.add_column("runs", sa.Column("noisy", sa.Boolean(), nullable=False, server_default=sa.false()))
    _replace("trust = 'shared' OR noisy")


def downgrade() -> None:
    _replace("trust = 'shared'")
    op.drop_column("runs", "noisy")


def _replace(by_confirmed: str) -> None:
    name = op.get_bind().dialect.name
    parts = {"origin": ORIGIN[name], "joined": JOINED[name], "created": CREATED[name]}
    op.get_bind().exec_driver_sql("DROP VIEW leaderboard")
    ranks = RANKS.format(by_confirmed=by_confirmed)
    op.get_bind().exec_driver_sql(LEADERBOARD.format(**parts, ranks=ranks, confirmed=CONFIRMED.format(c="c")))
