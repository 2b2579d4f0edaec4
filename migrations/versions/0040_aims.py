"""The objectives of a task with several: the row of a run says what they are."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("aims", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("runs", "aims")
