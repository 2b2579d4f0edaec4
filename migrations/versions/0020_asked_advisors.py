"""Who asked: advisors over the network are paid for from the same ledger as implementers.

`role` says who asked, in each call, reservation and check. An advisor whose tokens are not known has its prompt as
text. The leaderboard names the implementer of each candidate, and the spend view gives each role its own rows.
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

TABLES = ("implementer_calls", "reservations", "implementer_checks")
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
# CROSS JOIN keeps SQLite to this order of tables: it walks the rank index and stops at a LIMIT, however long the run.
LEADERBOARD = """
CREATE VIEW leaderboard AS
SELECT r.name AS run, k.place AS rank, c.candidate, c.island, c.score, c.reward,{origin}
       COALESCE((SELECT SUM(p.cost_usd) FROM implementer_calls p
                 WHERE p.run_id = c.run_id AND p.lease = c.lease), 0.0) AS cost_usd,
       {created} AS created,
       (SELECT p.model FROM implementer_calls p WHERE p.run_id = c.run_id AND p.lease = c.lease{asked}
        ORDER BY p.ordinal DESC LIMIT 1) AS implementer
FROM (SELECT run_id, candidate,
             ROW_NUMBER() OVER (PARTITION BY run_id ORDER BY merit DESC, candidate) AS place
      FROM candidates WHERE merit IS NOT NULL) k
CROSS JOIN candidates c
CROSS JOIN runs r{joined}
WHERE c.run_id = k.run_id AND c.candidate = k.candidate AND r.run_id = k.run_id
"""
SPEND = """
CREATE VIEW spend AS
SELECT r.name AS run, 'advisor' AS role, r.advisor AS model, COUNT(*) AS calls,
       SUM(a.prompt_tokens) AS prompt_tokens, SUM(a.completion_tokens) AS completion_tokens,
       SUM(a.seconds) AS seconds, 0.0 AS usd
FROM advisor_calls a JOIN runs r ON r.run_id = a.run_id{served}
GROUP BY r.run_id, r.name, r.advisor
UNION ALL
SELECT r.name, {role}, p.model, COUNT(*), SUM(p.prompt_tokens), SUM(p.completion_tokens),
       SUM(p.seconds), SUM(p.cost_usd)
FROM implementer_calls p JOIN runs r ON r.run_id = p.run_id
GROUP BY r.run_id, r.name, {group}p.model
UNION ALL
SELECT r.name, 'check', h.model, COUNT(*), SUM(h.prompt_tokens), SUM(h.completion_tokens),
       SUM(h.seconds), SUM(h.cost_usd)
FROM implementer_checks h JOIN runs r ON r.run_id = h.run_id
GROUP BY r.run_id, r.name, h.model
"""


def upgrade() -> None:
    for table in TABLES:
        op.add_column(table, sa.Column("role", sa.Text(), nullable=False, server_default="implementer"))
    op.add_column("advisor_calls", sa.Column("prompt", sa.Text(), nullable=True))
    _replace("leaderboard", _leaderboard(" AND p.role = 'implementer'"))
    _replace("spend", SPEND.format(served=" WHERE a.prompt IS NULL", role="p.role", group="p.role, "))


def downgrade() -> None:
    _replace("spend", SPEND.format(served="", role="'implementer'", group=""))
    _replace("leaderboard", _leaderboard(""))
    op.drop_column("advisor_calls", "prompt")
    for table in TABLES:
        op.drop_column(table, "role")


def _leaderboard(asked: str) -> str:
    name = op.get_bind().dialect.name
    return LEADERBOARD.format(origin=ORIGIN[name], joined=JOINED[name], created=CREATED[name], asked=asked)


def _replace(view: str, statement: str) -> None:
    op.get_bind().exec_driver_sql(f"DROP VIEW {view}")
    op.get_bind().exec_driver_sql(statement)
