"""How the advisor went back to an earlier version, at what share of the learning rate, and how long each step was."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("groups", sa.Column("restores", sa.Integer(), nullable=True))
    op.add_column("groups", sa.Column("rate", sa.Double(), nullable=False, server_default="1.0"))
    op.add_column("groups", sa.Column("step_scale", sa.Double(), nullable=True))
    op.add_column("versions", sa.Column("restored", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("versions", "restored")
    for column in ("step_scale", "rate", "restores"):
        op.drop_column("groups", column)
