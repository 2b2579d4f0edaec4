"""How programs that claimed to be a new best did on fresh instances, and a view of it.

docs/sql.md says what each column means.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

OUTCOMES = (
    "ok",
    "candidate_error",
    "timeout",
    "out_of_memory",
    "output_overflow",
    "invalid_score",
    "suspicious",
    "unparsed",
    "not_implemented",
    "unchanged",
)

CONFIRMATIONS = """
CREATE VIEW confirmations AS
SELECT r.name AS run, f.candidate, c.island, f.claimed, f.held AS confirmed, f.number AS tries,
       f.score AS fresh_score, f.own_score, c.outcome, c.mechanism, e.description AS experiment
FROM fresh_scores f
JOIN runs r ON r.run_id = f.run_id
JOIN candidates c ON c.run_id = f.run_id AND c.candidate = f.candidate
LEFT JOIN experiments e ON e.run_id = f.run_id AND e.lease = c.lease
WHERE f.number = (SELECT MAX(g.number) FROM fresh_scores g WHERE g.run_id = f.run_id AND g.candidate = f.candidate)
"""


def _finite(column: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{column} > -1e308 AND {column} < 1e308", name=op.f(f"ck_fresh_scores_{column}_finite"))


def upgrade() -> None:
    outcomes = ", ".join(f"'{outcome}'" for outcome in OUTCOMES)
    op.create_table(
        "fresh_scores",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("candidate", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("claimed", sa.Double(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("own_score", sa.Double(), nullable=True),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.CheckConstraint(f"outcome IN ({outcomes})", name=op.f("ck_fresh_scores_outcome_known")),
        sa.CheckConstraint(
            "(outcome = 'ok') = (score IS NOT NULL)", name=op.f("ck_fresh_scores_score_if_and_only_if_ok")
        ),
        sa.CheckConstraint("score IS NOT NULL OR NOT held", name=op.f("ck_fresh_scores_held_by_a_score")),
        _finite("claimed"),
        _finite("score"),
        _finite("own_score"),
        sa.ForeignKeyConstraint(
            ["run_id", "candidate"],
            ["candidates.run_id", "candidates.candidate"],
            name=op.f("fk_fresh_scores_run_id_candidate"),
        ),
        sa.PrimaryKeyConstraint("run_id", "candidate", "number", name=op.f("pk_fresh_scores")),
    )
    op.get_bind().exec_driver_sql(CONFIRMATIONS)


def downgrade() -> None:
    op.get_bind().exec_driver_sql("DROP VIEW confirmations")
    op.drop_table("fresh_scores")
