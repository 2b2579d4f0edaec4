"""What an island does that has stopped improving, the ideas that come over with it, and a view of both.

No foreign key on `ideas.origin`: it is a number on another island. docs/sql.md says what each column means.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ACTIONS = """
CREATE VIEW actions AS
SELECT r.name AS run, a.lease, a.island, a.action, a.candidate, c.score, a.snapshot, a.partner,
       (SELECT COUNT(*) FROM ideas i WHERE i.run_id = a.run_id AND i.lease = a.lease AND i.origin IS NOT NULL)
           AS ideas_taken,
       a.momentum, a.rollouts, a.progress, a.rival, a.probability, a.at
FROM island_actions a
JOIN runs r ON r.run_id = a.run_id
JOIN candidates c ON c.run_id = a.run_id AND c.candidate = a.candidate
"""


def _refers(column: str, table: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["run_id", column],
        [f"{table}.run_id", f"{table}.{target}"],
        name=op.f(f"fk_island_actions_run_id_{column}"),
    )


def upgrade() -> None:
    op.create_table(
        "island_actions",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("island", sa.Integer(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Integer(), nullable=False),
        sa.Column("snapshot", sa.Integer(), nullable=True),
        sa.Column("stay", sa.Integer(), nullable=False),
        sa.Column("partner", sa.Integer(), nullable=True),
        sa.Column("as_of", sa.Integer(), nullable=True),
        sa.Column("momentum", sa.Double(), nullable=False),
        sa.Column("rollouts", sa.Integer(), nullable=False),
        sa.Column("progress", sa.Double(), nullable=False),
        sa.Column("rival", sa.Double(), nullable=True),
        sa.Column("probability", sa.Double(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.CheckConstraint("action IN ('backtrack', 'crossover')", name=op.f("ck_island_actions_action_known")),
        sa.CheckConstraint(
            "(action = 'backtrack') = (snapshot IS NOT NULL)", name=op.f("ck_island_actions_backtrack_to_a_snapshot")
        ),
        sa.CheckConstraint(
            "(action = 'crossover') = (partner IS NOT NULL)", name=op.f("ck_island_actions_crossover_with_a_partner")
        ),
        sa.CheckConstraint("(partner IS NULL) = (as_of IS NULL)", name=op.f("ck_island_actions_partner_as_of_a_lease")),
        _refers("as_of", "leases", "lease"),
        _refers("candidate", "candidates", "candidate"),
        _refers("island", "islands", "island"),
        _refers("lease", "leases", "lease"),
        _refers("partner", "islands", "island"),
        sa.PrimaryKeyConstraint("run_id", "lease", name=op.f("pk_island_actions")),
    )
    op.add_column("ideas", sa.Column("origin", sa.Integer(), nullable=True))
    op.get_bind().exec_driver_sql(ACTIONS)


def downgrade() -> None:
    op.get_bind().exec_driver_sql("DROP VIEW actions")
    op.drop_column("ideas", "origin")
    op.drop_table("island_actions")
