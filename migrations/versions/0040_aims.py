"""The objectives of a task with several: the row of a run says what they are, and those of second
evaluations keep the metrics."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column("runs", sa.Column("aims", sa.Text(), nullable=True))
    op.add_column("fresh_scores", sa.Column("metrics", JSON, nullable=True))


def downgrade() -> None:
    op.drop_column("fresh_scores", "metrics")
    op.drop_column("runs", "aims")
