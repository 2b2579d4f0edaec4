"""Scores that were measured several times: each attempt keeps its own, and a view has their mean."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

REPEATS = """
CREATE VIEW repeats AS
SELECT r.name AS run, m.candidate, c.island, m.evaluations, m.mean,
       SUM((a.score - m.mean) * (a.score - m.mean)) / (m.evaluations * (m.evaluations - 1)) AS variance,
       MIN(a.score) AS lowest, MAX(a.score) AS highest
FROM (
  SELECT run_id, lease AS candidate, COUNT(*) AS evaluations, AVG(score) AS mean
  FROM evaluation_attempts WHERE score IS NOT NULL GROUP BY run_id, lease HAVING COUNT(*) > 1
) m
JOIN evaluation_attempts a ON a.run_id = m.run_id AND a.lease = m.candidate AND a.score IS NOT NULL
JOIN candidates c ON c.run_id = m.run_id AND c.candidate = m.candidate AND c.score IS NOT NULL
JOIN runs r ON r.run_id = m.run_id
GROUP BY m.run_id, r.name, m.candidate, c.island, m.evaluations, m.mean
"""


def upgrade() -> None:
    op.add_column("evaluation_attempts", sa.Column("score", sa.Double(), nullable=True))
    op.get_bind().exec_driver_sql(REPEATS)


def downgrade() -> None:
    op.get_bind().exec_driver_sql("DROP VIEW repeats")
    op.drop_column("evaluation_attempts", "score")
