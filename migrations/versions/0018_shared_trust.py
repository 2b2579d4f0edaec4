"""Runs whose programs can reach what scores them, and what their evaluators say for the author of the next program."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("trust", sa.Text(), nullable=False, server_default="hidden"))
    op.add_column("candidates", sa.Column("feedback", sa.Text(), nullable=True))
    op.add_column("claims", sa.Column("feedback", sa.Text(), nullable=True))
    op.add_column("implementer_tries", sa.Column("evaluation_feedback", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("implementer_tries", "evaluation_feedback")
    op.drop_column("claims", "feedback")
    op.drop_column("candidates", "feedback")
    op.drop_column("runs", "trust")
