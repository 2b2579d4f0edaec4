"""The inbox: what people put into a run, and what it has taken in of that."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "inbox",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("entry", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_inbox_run_id")),
        sa.PrimaryKeyConstraint("run_id", "entry", name=op.f("pk_inbox")),
    )
    op.create_table(
        "given_ideas",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("entry", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idea", sa.Integer(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("after", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_given_ideas_run_id")),
        sa.PrimaryKeyConstraint("run_id", "entry", name=op.f("pk_given_ideas")),
    )


def downgrade() -> None:
    op.drop_table("given_ideas")
    op.drop_table("inbox")
