"""Every attempt to evaluate a program: how it ended, how long it took, how long it waited for a slot.

docs/sql.md says what each column means.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
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
    "infrastructure_error",
    "unparsed",
    "not_implemented",
    "unchanged",
)


def upgrade() -> None:
    outcomes = ", ".join(f"'{outcome}'" for outcome in OUTCOMES)
    op.create_table(
        "evaluation_attempts",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("fresh", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("queue_seconds", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("accepted", sa.Boolean(), nullable=False),
        sa.CheckConstraint(f"outcome IN ({outcomes})", name=op.f("ck_evaluation_attempts_outcome_known")),
        sa.CheckConstraint(
            "outcome <> 'infrastructure_error' OR NOT accepted",
            name=op.f("ck_evaluation_attempts_accepted_if_not_lost"),
        ),
        sa.CheckConstraint("attempt > 0 AND fresh >= 0 AND lease >= 0", name=op.f("ck_evaluation_attempts_numbered")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_evaluation_attempts_run_id")),
        sa.PrimaryKeyConstraint("run_id", "lease", "stage", "fresh", "attempt", name=op.f("pk_evaluation_attempts")),
    )


def downgrade() -> None:
    op.drop_table("evaluation_attempts")
