"""Where the task of a run lies, and with which extension its programs are written."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("task_folder", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("task_suffix", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("runs", "task_suffix")
    op.drop_column("runs", "task_folder")
