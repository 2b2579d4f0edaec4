"""Pages of notes, each with the call that wrote it, and a view of them with their cost."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

NOTES = """
CREATE VIEW notes AS
SELECT r.name AS run, n.number, n.candidates, n.lease AS newest, p.model, p.prompt_tokens, p.completion_tokens,
       p.cost_usd, p.seconds, p.at, n.from_group, n.text
FROM notes_pages n
JOIN runs r ON r.run_id = n.run_id
JOIN implementer_calls p ON p.run_id = n.run_id AND p.lease = n.lease AND p.ordinal = n.ordinal
"""


def upgrade() -> None:
    op.create_table(
        "notes_pages",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("candidates", sa.Integer(), nullable=False),
        sa.Column("from_group", sa.Integer(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "lease", "ordinal"],
            ["implementer_calls.run_id", "implementer_calls.lease", "implementer_calls.ordinal"],
            name=op.f("fk_notes_pages_run_id_lease_ordinal"),
        ),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_notes_pages")),
    )
    op.get_bind().exec_driver_sql(NOTES)


def downgrade() -> None:
    op.get_bind().exec_driver_sql("DROP VIEW notes")
    op.drop_table("notes_pages")
