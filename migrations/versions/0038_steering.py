"""Words of people about a run: the inbox holds them, and the run says which of them it has taken in."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("inbox", sa.Column("subject", sa.Text(), nullable=True))
    op.add_column("inbox", sa.Column("number", sa.Integer(), nullable=True))
    op.create_table(
        "steering",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("entry", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("after", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_steering_run_id")),
        sa.PrimaryKeyConstraint("run_id", "entry", name=op.f("pk_steering")),
    )


def downgrade() -> None:
    op.drop_table("steering")
    op.drop_column("inbox", "number")
    op.drop_column("inbox", "subject")
