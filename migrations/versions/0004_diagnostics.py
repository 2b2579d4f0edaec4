"""Two views of what the learner reported: off-policy figures by the age of tokens, and what was skipped and why.

docs/sql.md says what each column means. The figures stand in `groups.metrics` under names such as `ess_age_2`.
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

FIGURES = ("ess", "k3", "clip_fraction", "mean_ratio")

SQLITE_AGES = """
CREATE VIEW ages AS
SELECT r.name AS run, g.group_number, g.update_number, CAST(substr(m.key, 12) AS INTEGER) AS age,
       CAST(m.value AS INTEGER) AS tokens, {figures}
FROM groups g JOIN runs r ON r.run_id = g.run_id JOIN json_each(g.metrics) m
WHERE substr(m.key, 1, 11) = 'tokens_age_'
"""
SQLITE_FIGURE = "json_extract(g.metrics, '$.{name}_age_' || substr(m.key, 12)) AS {name}"

POSTGRES_AGES = """
CREATE VIEW ages AS
SELECT r.name AS run, g.group_number, g.update_number, CAST(substr(m.key, 12) AS INTEGER) AS age,
       CAST(CAST(m.value AS DOUBLE PRECISION) AS INTEGER) AS tokens, {figures}
FROM groups g JOIN runs r ON r.run_id = g.run_id CROSS JOIN LATERAL jsonb_each_text(g.metrics) AS m(key, value)
WHERE substr(m.key, 1, 11) = 'tokens_age_'
"""
POSTGRES_FIGURE = "CAST(g.metrics ->> ('{name}_age_' || substr(m.key, 12)) AS DOUBLE PRECISION) AS {name}"

SKIPS = """
CREATE VIEW skips AS
SELECT r.name AS run, g.reason, COUNT(*) AS groups
FROM groups g JOIN runs r ON r.run_id = g.run_id
WHERE g.state = 'skipped'
GROUP BY r.run_id, r.name, g.reason
"""


def upgrade() -> None:
    connection = op.get_bind()
    sqlite = connection.dialect.name == "sqlite"
    ages, figure = (SQLITE_AGES, SQLITE_FIGURE) if sqlite else (POSTGRES_AGES, POSTGRES_FIGURE)
    connection.exec_driver_sql(ages.format(figures=", ".join(figure.format(name=name) for name in FIGURES)))
    connection.exec_driver_sql(SKIPS)


def downgrade() -> None:
    for name in ("skips", "ages"):
        op.get_bind().exec_driver_sql(f"DROP VIEW {name}")
