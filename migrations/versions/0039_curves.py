"""Evaluations that are stopped early: the outcome, and what an evaluation reported while it ran.

The outcomes stand in checks of three tables. SQLite changes a check only in a copy of its table, and a table on which
views depend can only be copied while they are away.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

FAILURES = ("candidate_error", "timeout", "out_of_memory", "output_overflow", "invalid_score", "suspicious")
UNUSED = ("unparsed", "not_implemented", "unchanged")
SCORED = ("ok", *FAILURES, *UNUSED, "below_threshold")
KNOWN = {
    "candidates": SCORED,
    "epoch_scores": SCORED,
    "evaluation_attempts": ("ok", *FAILURES, "infrastructure_error", *UNUSED),
}
PRUNED = "pruned"


def upgrade() -> None:
    for table, outcomes in KNOWN.items():
        _let_end(table, (*outcomes, PRUNED), outcomes)
    op.add_column("evaluation_attempts", sa.Column("curve", JSON, nullable=True))


def downgrade() -> None:
    """Refused by the checks where an evaluation was stopped: an older pace has no word for it."""
    op.drop_column("evaluation_attempts", "curve")
    for table, outcomes in KNOWN.items():
        _let_end(table, outcomes, (*outcomes, PRUNED))


def _check(outcomes: tuple[str, ...]) -> str:
    listed = ", ".join(f"'{outcome}'" for outcome in outcomes)
    return f"outcome IN ({listed})"


def _let_end(table: str, outcomes: tuple[str, ...], before: tuple[str, ...]) -> None:
    connection = op.get_bind()
    check, old = _check(outcomes), _check(before)
    if connection.dialect.name != "sqlite":
        name = op.f(f"ck_{table}_outcome_known")
        op.drop_constraint(name, table, type_="check")
        op.create_check_constraint(name, table, check)
        return

    def texts(kind: str, where: str) -> list[tuple[str, str]]:
        query = f"SELECT name, sql FROM sqlite_master WHERE type = '{kind}' AND sql IS NOT NULL AND {where}"
        return [(name, sql) for name, sql in connection.exec_driver_sql(query)]

    views, indexes = texts("view", "1 = 1"), texts("index", f"tbl_name = '{table}'")
    [(_, made)] = texts("table", f"name = '{table}'")
    head, rest = made.split("(", 1)
    if head.split()[-1].strip('"') != table or rest.count(old) != 1:
        raise RuntimeError(f"the table {table} is not as pace made it")
    for name, _ in views:
        connection.exec_driver_sql(f'DROP VIEW "{name}"')
    connection.exec_driver_sql(f"CREATE TABLE {table}_copy ({rest.replace(old, check)}")
    connection.exec_driver_sql(f"INSERT INTO {table}_copy SELECT * FROM {table}")
    connection.exec_driver_sql(f"DROP TABLE {table}")
    connection.exec_driver_sql(f"ALTER TABLE {table}_copy RENAME TO {table}")
    for _, sql in (*indexes, *views):
        connection.exec_driver_sql(sql)
