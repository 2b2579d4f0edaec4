"""The journal: every fact of a run in the order of its commits, and the long texts that facts refer to."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "journal",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_journal_run_id")),
        sa.PrimaryKeyConstraint("run_id", "seq", name=op.f("pk_journal")),
    )
    op.create_table(
        "blobs",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_blobs_run_id")),
        sa.PrimaryKeyConstraint("run_id", "digest", name=op.f("pk_blobs")),
    )


def downgrade() -> None:
    op.drop_table("blobs")
    op.drop_table("journal")
