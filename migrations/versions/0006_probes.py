"""What the logprob probe found after the push of a version stands beside its receipt."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("versions", sa.Column("probe_k3", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("versions", "probe_k3")
