"""Which implementer a bandit chose for which kind of experiment, and why.

docs/sql.md says what each column means.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "implementer_choices",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("rate", sa.Double(), nullable=False),
        sa.Column("usd", sa.Double(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('tuning', 'invention', 'refinement')", name=op.f("ck_implementer_choices_kind_known")
        ),
        sa.CheckConstraint(
            "rate >= 0 AND rate <= 1 AND usd >= 0 AND usd < 1e308",
            name=op.f("ck_implementer_choices_expectation_possible"),
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "lease"],
            ["leases.run_id", "leases.lease"],
            name=op.f("fk_implementer_choices_run_id_lease"),
        ),
        sa.PrimaryKeyConstraint("run_id", "lease", name=op.f("pk_implementer_choices")),
    )


def downgrade() -> None:
    op.drop_table("implementer_choices")
