"""Ideas that an experiment on another idea has answered, by the advisor's word. Earlier experiments name none."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("experiments", sa.Column("covers", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("experiments", "covers")
