"""Programs that are being tried on fresh instances, so that a resume need not pay for what was tried before.

docs/sql.md says what each column means.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "claims",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("island", sa.Integer(), nullable=False),
        sa.Column("program", sa.Text(), nullable=False),
        sa.Column("mechanism", sa.Text(), nullable=True),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("metrics", JSON, nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("memoised", sa.Boolean(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("tries", JSON, nullable=False),
        sa.CheckConstraint("score > -1e308 AND score < 1e308", name=op.f("ck_claims_score_finite")),
        sa.ForeignKeyConstraint(
            ["run_id", "lease"], ["leases.run_id", "leases.lease"], name=op.f("fk_claims_run_id_lease")
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "island"], ["islands.run_id", "islands.island"], name=op.f("fk_claims_run_id_island")
        ),
        sa.PrimaryKeyConstraint("run_id", "lease", name=op.f("pk_claims")),
    )


def downgrade() -> None:
    op.drop_table("claims")
