"""Who reported what an evaluation kept as its curve. All earlier ones are of command tasks, by their evaluators."""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("evaluation_attempts", sa.Column("reported_by", sa.Text(), nullable=True))
    op.get_bind().exec_driver_sql("UPDATE evaluation_attempts SET reported_by = 'evaluator' WHERE curve IS NOT NULL")


def downgrade() -> None:
    op.drop_column("evaluation_attempts", "reported_by")
