"""What a run may spend: reservations before calls, the checks at its start, and the settings that a resume changed.

The leaderboard says who implemented each candidate, and the spend view counts checks.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

LEADERBOARD = """
CREATE VIEW leaderboard AS
SELECT r.name AS run, k.place AS rank, c.candidate, c.island, c.score, c.reward,
       i.description AS idea, e.description AS experiment, c.mechanism, c.parent,
       l.oldest_version AS policy_version, l.staleness,
       COALESCE((SELECT SUM(p.cost_usd) FROM implementer_calls p
                 WHERE p.run_id = c.run_id AND p.lease = c.lease), 0.0) AS cost_usd,
       {created} AS created{implementer}
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

IMPLEMENTER = """,
       (SELECT p.model FROM implementer_calls p WHERE p.run_id = c.run_id AND p.lease = c.lease
        ORDER BY p.ordinal DESC LIMIT 1) AS implementer"""

SPEND_BEFORE = """
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

CHECKS = """
UNION ALL
SELECT r.name, 'check', h.model, COUNT(*), SUM(h.prompt_tokens), SUM(h.completion_tokens),
       SUM(h.seconds), SUM(h.cost_usd)
FROM implementer_checks h JOIN runs r ON r.run_id = h.run_id
GROUP BY r.run_id, r.name, h.model
"""


def upgrade() -> None:
    op.create_table(
        "reservations",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=True),
        sa.CheckConstraint("cost_usd >= 0 AND cost_usd < 1e308", name="ck_reservations_cost_not_negative"),
        sa.ForeignKeyConstraint(
            ["run_id", "lease", "ordinal"],
            ["implementer_calls.run_id", "implementer_calls.lease", "implementer_calls.ordinal"],
            name="fk_reservations_run_id_lease_ordinal",
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "lease"], ["leases.run_id", "leases.lease"], name="fk_reservations_run_id_lease"
        ),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_reservations"),
    )
    op.create_table(
        "implementer_checks",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.CheckConstraint("cost_usd >= 0 AND cost_usd < 1e308", name="ck_implementer_checks_cost_not_negative"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_implementer_checks_run_id"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_implementer_checks"),
    )
    op.create_table(
        "setting_changes",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_setting_changes_run_id"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_setting_changes"),
    )
    _replace_views(IMPLEMENTER, SPEND_BEFORE + CHECKS)


def downgrade() -> None:
    _replace_views("", SPEND_BEFORE)
    for table in ("setting_changes", "implementer_checks", "reservations"):
        op.drop_table(table)


def _replace_views(implementer: str, spend: str) -> None:
    bind = op.get_bind()
    created = "strftime('%Y-%m-%dT%H:%M:%SZ', c.at, 'unixepoch')"
    if bind.dialect.name != "sqlite":
        created = """to_char(to_timestamp(c.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""
    leaderboard = LEADERBOARD.replace("{created}", created).replace("{implementer}", implementer)
    for name, statement in (("leaderboard", leaderboard), ("spend", spend)):
        bind.exec_driver_sql(f"DROP VIEW {name}")
        bind.exec_driver_sql(statement)
