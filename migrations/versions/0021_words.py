"""What the words of a prompt stand for, where several words of a catalogue share a token."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("advisor_calls", sa.Column("words", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("advisor_calls", "words")
