"""What the task's own program measured on fresh instances, against which each objective of a claim is compared."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column("fresh_scores", sa.Column("own_metrics", JSON, nullable=True))


def downgrade() -> None:
    op.drop_column("fresh_scores", "own_metrics")
