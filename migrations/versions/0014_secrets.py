"""The secret of each run from which the seeds of its fresh instances follow, and its seeds by number in every row.

A run that began before has tries on seeds that anybody could work out: they are numbered −1, −2 …, so that a resume
takes none of their scores for one on a seed that it has now.
"""

import secrets

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

SECRET_BYTES = 32
JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "secrets",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("fresh", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_secrets_run_id")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_secrets")),
    )
    connection = op.get_bind()
    for (run_id,) in connection.execute(sa.text("SELECT run_id FROM runs")).all():
        connection.execute(
            sa.text("INSERT INTO secrets (run_id, fresh) VALUES (:run_id, :fresh)"),
            {"run_id": run_id, "fresh": secrets.token_hex(SECRET_BYTES)},
        )
    connection.execute(sa.text("UPDATE fresh_scores SET seed = -number"))
    claims = sa.table("claims", sa.column("run_id"), sa.column("lease"), sa.column("tries", JSON))
    for run_id, lease, tries in connection.execute(sa.select(claims)).all():
        numbered = [{**tried, "seed": -number} for number, tried in enumerate(tries, start=1)]
        of_lease = (claims.c.run_id == run_id) & (claims.c.lease == lease)
        connection.execute(sa.update(claims).where(of_lease).values(tries=numbered))


def downgrade() -> None:
    """The numbers stay: which seeds they stood for is not known any more."""
    op.drop_table("secrets")
