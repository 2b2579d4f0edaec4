"""What a model answered to an experiment, try by try, and how a program that was to be repaired failed.

docs/sql.md says what each column means.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
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


def upgrade() -> None:
    outcomes = ", ".join(f"'{outcome}'" for outcome in OUTCOMES)
    op.create_table(
        "implementer_tries",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("program", sa.Text(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("evaluation", sa.Text(), nullable=True),
        sa.Column("evaluation_detail", sa.Text(), nullable=True),
        sa.Column("evaluation_seconds", sa.Double(), nullable=True),
        sa.CheckConstraint("outcome <> 'ok' OR program IS NOT NULL", name=op.f("ck_implementer_tries_program_if_ok")),
        sa.CheckConstraint("evaluation IS NULL OR outcome = 'ok'", name=op.f("ck_implementer_tries_evaluated_if_ok")),
        sa.CheckConstraint(f"evaluation IN ({outcomes})", name=op.f("ck_implementer_tries_evaluation_known")),
        sa.ForeignKeyConstraint(
            ["run_id", "lease", "ordinal"],
            ["implementer_calls.run_id", "implementer_calls.lease", "implementer_calls.ordinal"],
            name=op.f("fk_implementer_tries_run_id_lease_ordinal"),
        ),
        sa.PrimaryKeyConstraint("run_id", "lease", "number", name=op.f("pk_implementer_tries")),
    )


def downgrade() -> None:
    op.drop_table("implementer_tries")
