"""On which machine of a cluster each attempt of an evaluation ran, and of which class that machine is."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("evaluation_attempts", sa.Column("node", sa.Text(), nullable=True))
    op.add_column("evaluation_attempts", sa.Column("machine", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("evaluation_attempts", "machine")
    op.drop_column("evaluation_attempts", "node")
