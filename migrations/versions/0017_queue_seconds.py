"""How long each candidate waited for evaluation slots."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("candidates", sa.Column("queue_seconds", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("candidates", "queue_seconds")
