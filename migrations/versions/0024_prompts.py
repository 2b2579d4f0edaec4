"""Which templates the questions of a run were made of at its start."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("prompts_digest", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("runs", "prompts_digest")
