"""What each lease's last program did on practice instances, which score nothing.

docs/sql.md says what each column means.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")

revision = "0027"
down_revision = "0026"
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
        "practices",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("program_digest", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("metrics", JSON, nullable=False),
        sa.Column("printed", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("memoised", sa.Boolean(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.CheckConstraint(f"outcome IN ({outcomes})", name=op.f("ck_practices_outcome_known")),
        sa.CheckConstraint("(outcome = 'ok') = (score IS NOT NULL)", name=op.f("ck_practices_score_if_and_only_if_ok")),
        sa.CheckConstraint("score > -1e308 AND score < 1e308", name=op.f("ck_practices_score_finite")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_practices_run_id")),
        sa.PrimaryKeyConstraint("run_id", "lease", name=op.f("pk_practices")),
    )


def downgrade() -> None:
    op.drop_table("practices")
