"""Ideas that left the pool of an island, or got new words, each with the call that named it."""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ideas_left",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("idea", sa.Integer(), nullable=False),
        sa.Column("island", sa.Integer(), nullable=False),
        sa.Column("from_group", sa.Integer(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id", "lease", "ordinal"],
            ["implementer_calls.run_id", "implementer_calls.lease", "implementer_calls.ordinal"],
            name=op.f("fk_ideas_left_run_id_lease_ordinal"),
        ),
        sa.PrimaryKeyConstraint("run_id", "lease", "ordinal", "idea", name=op.f("pk_ideas_left")),
    )


def downgrade() -> None:
    op.drop_table("ideas_left")
