"""The parent that a rollout took from another island stands in its lease from the moment it opens.

No foreign key: SQLite adds one only by copying the table, and every view hangs on it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("leases", sa.Column("migrant", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("leases", "migrant")
