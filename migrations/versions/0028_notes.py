"""Pages of notes, each with the call that wrote it, and a view of them with their cost.

The cost of a candidate in the leaderboard leaves out the calls for notes, which are made for the whole run.
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
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
      FROM candidates WHERE merit IS NOT NULL AND run_id NOT IN (SELECT run_id FROM runs WHERE trust = 'shared')
      UNION ALL
      SELECT run_id, candidate,
             ROW_NUMBER() OVER (PARTITION BY run_id
                                ORDER BY CASE WHEN confirmed IS NULL THEN 1 ELSE 0 END,
                                         CASE WHEN direction = 'maximize' THEN confirmed ELSE -confirmed END DESC,
                                         merit DESC, candidate) AS place
      FROM (SELECT m.run_id, m.candidate, m.merit, s.direction, {CONFIRMED.format(c="m")} AS confirmed
            FROM runs s JOIN candidates m ON m.run_id = s.run_id
            WHERE s.trust = 'shared' AND m.merit IS NOT NULL) tried"""
# CROSS JOIN keeps SQLite to this order of tables: it walks the ranks and stops at a LIMIT, however long the run.
LEADERBOARD = """
CREATE VIEW leaderboard AS
SELECT r.name AS run, k.place AS rank, c.candidate, c.island, c.score, c.reward,{origin}
       COALESCE((SELECT SUM(p.cost_usd) FROM implementer_calls p
                 WHERE p.run_id = c.run_id AND p.lease = c.lease{own}), 0.0) AS cost_usd,
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
NOTES = """
CREATE VIEW notes AS
SELECT r.name AS run, n.number, n.candidates, n.lease AS newest, p.model, p.prompt_tokens, p.completion_tokens,
       p.cost_usd, p.seconds, p.at, n.from_group, n.text
FROM notes_pages n
JOIN runs r ON r.run_id = n.run_id
JOIN implementer_calls p ON p.run_id = n.run_id AND p.lease = n.lease AND p.ordinal = n.ordinal
"""


def upgrade() -> None:
    op.create_table(
        "notes_pages",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("candidates", sa.Integer(), nullable=False),
        sa.Column("from_group", sa.Integer(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "lease", "ordinal"],
            ["implementer_calls.run_id", "implementer_calls.lease", "implementer_calls.ordinal"],
            name=op.f("fk_notes_pages_run_id_lease_ordinal"),
        ),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_notes_pages")),
    )
    op.get_bind().exec_driver_sql(NOTES)
    _leaderboard(" AND p.role <> 'notes'")


def downgrade() -> None:
    _leaderboard("")
    op.get_bind().exec_driver_sql("DROP VIEW notes")
    op.drop_table("notes_pages")


def _leaderboard(own: str) -> None:
    name = op.get_bind().dialect.name
    parts = {"origin": ORIGIN[name], "joined": JOINED[name], "created": CREATED[name], "ranks": RANKS}
    op.get_bind().exec_driver_sql("DROP VIEW leaderboard")
    op.get_bind().exec_driver_sql(LEADERBOARD.format(**parts, own=own, confirmed=CONFIRMED.format(c="c")))
