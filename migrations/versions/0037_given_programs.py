"""Programs of people: the inbox holds them, and the run says for which of them it opened a lease."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("inbox", sa.Column("program", sa.Text(), nullable=True))
    op.create_table(
        "given_programs",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("entry", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "lease"], ["leases.run_id", "leases.lease"], name=op.f("fk_given_programs_run_id_lease")
        ),
        sa.PrimaryKeyConstraint("run_id", "entry", name=op.f("pk_given_programs")),
        sa.UniqueConstraint("run_id", "lease", name=op.f("uq_given_programs_run_id_lease")),
    )


def downgrade() -> None:
    op.drop_table("given_programs")
    op.drop_column("inbox", "program")
