"""How programs did in the cheap stages of their task's cascade, a view of it, and the outcome of one that was stopped.

The list of outcomes stands in a check of `candidates`. SQLite has no way to change one but to copy the table, and a
table on which views hang can only be copied while they are away. docs/sql.md says what each column means.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

KNOWN = (
    "ok",
    "candidate_error",
    "timeout",
    "out_of_memory",
    "output_overflow",
    "invalid_score",
    "suspicious",
    "unparsed",
    "not_implemented",
    "unchanged",
)
STOPPED = "below_threshold"
CHECK = "ck_candidates_outcome_known"

CASCADE = """
CREATE VIEW cascades AS
SELECT r.name AS run, s.lease, l.island, s.number, s.stage, s.score, s.threshold, s.passed, s.outcome, s.seconds,
       c.outcome AS ended, c.score AS full_score, c.mechanism, e.description AS experiment
FROM cascade_scores s
JOIN runs r ON r.run_id = s.run_id
JOIN leases l ON l.run_id = s.run_id AND l.lease = s.lease
LEFT JOIN candidates c ON c.run_id = s.run_id AND c.lease = s.lease
LEFT JOIN experiments e ON e.run_id = s.run_id AND e.lease = s.lease
"""


def upgrade() -> None:
    _let_candidates_end((*KNOWN, STOPPED), KNOWN)
    op.create_table(
        "cascade_scores",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("memoised", sa.Boolean(), nullable=False),
        sa.Column("program", sa.Text(), nullable=True),
        sa.Column("mechanism", sa.Text(), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.CheckConstraint(f"outcome IN ({_listed(KNOWN)})", name=op.f("ck_cascade_scores_outcome_known")),
        sa.CheckConstraint(
            "(outcome = 'ok') = (score IS NOT NULL)", name=op.f("ck_cascade_scores_score_if_and_only_if_ok")
        ),
        sa.CheckConstraint("score IS NOT NULL OR NOT passed", name=op.f("ck_cascade_scores_passed_by_a_score")),
        sa.CheckConstraint("passed = (program IS NOT NULL)", name=op.f("ck_cascade_scores_program_goes_on")),
        sa.CheckConstraint("score > -1e308 AND score < 1e308", name=op.f("ck_cascade_scores_score_finite")),
        sa.ForeignKeyConstraint(
            ["run_id", "lease"], ["leases.run_id", "leases.lease"], name=op.f("fk_cascade_scores_run_id_lease")
        ),
        sa.PrimaryKeyConstraint("run_id", "lease", "ordinal", name=op.f("pk_cascade_scores")),
    )
    op.get_bind().exec_driver_sql(CASCADE)


def downgrade() -> None:
    """Refused by the check itself where a candidate was stopped: an older pace has no word for it."""
    op.get_bind().exec_driver_sql("DROP VIEW cascades")
    op.drop_table("cascade_scores")
    _let_candidates_end(KNOWN, (*KNOWN, STOPPED))


def _listed(outcomes: tuple[str, ...]) -> str:
    return ", ".join(f"'{outcome}'" for outcome in outcomes)


def _let_candidates_end(outcomes: tuple[str, ...], before: tuple[str, ...]) -> None:
    connection = op.get_bind()
    check = f"outcome IN ({_listed(outcomes)})"
    if connection.dialect.name != "sqlite":
        op.drop_constraint(op.f(CHECK), "candidates", type_="check")
        op.create_check_constraint(op.f(CHECK), "candidates", check)
        return

    def texts(kind: str, where: str) -> list[tuple[str, str]]:
        query = f"SELECT name, sql FROM sqlite_master WHERE type = '{kind}' AND sql IS NOT NULL AND {where}"
        return [(name, sql) for name, sql in connection.exec_driver_sql(query)]

    views, indexes = texts("view", "1 = 1"), texts("index", "tbl_name = 'candidates'")
    [(_, table)] = texts("table", "name = 'candidates'")
    head, rest = table.split("(", 1)
    old = f"outcome IN ({_listed(before)})"
    if head.split()[-1].strip('"') != "candidates" or rest.count(old) != 1:
        raise RuntimeError("the table candidates is not as pace made it")
    for name, _ in views:
        connection.exec_driver_sql(f'DROP VIEW "{name}"')
    connection.exec_driver_sql(f"CREATE TABLE candidates_copy ({rest.replace(old, check)}")
    connection.exec_driver_sql("INSERT INTO candidates_copy SELECT * FROM candidates")
    connection.exec_driver_sql("DROP TABLE candidates")
    connection.exec_driver_sql("ALTER TABLE candidates_copy RENAME TO candidates")
    for _, sql in (*indexes, *views):
        connection.exec_driver_sql(sql)
