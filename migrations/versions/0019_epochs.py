# pyright: reportUnknownArgumentType=false
"""What each evaluator of a run said of its programs, where it was corrected and they were scored again.

docs/sql.md says what each column means.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

OUTCOMES = (
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
    "below_threshold",
)

RESCORES = """
CREATE VIEW rescores AS
SELECT r.name AS run, s.epoch, s.candidate, s.outcome, s.score, s.reward, s.detail, s.seconds, s.memoised, s.at
FROM epoch_scores s JOIN runs r ON r.run_id = s.run_id
"""


def upgrade() -> None:
    op.create_table(
        "evaluation_epochs",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("task_digest", sa.Text(), nullable=False),
        sa.Column("best", sa.Integer(), nullable=True),
        sa.Column("began_at", sa.Double(), nullable=False),
        sa.Column("in_force_at", sa.Double(), nullable=True),
        sa.Column("last_lease", sa.Integer(), nullable=True),
        sa.CheckConstraint("epoch > 0", name=op.f("ck_evaluation_epochs_numbered")),
        sa.CheckConstraint(
            "(in_force_at IS NULL) = (last_lease IS NULL)", name=op.f("ck_evaluation_epochs_last_lease_if_in_force")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_evaluation_epochs_run_id")),
        sa.PrimaryKeyConstraint("run_id", "epoch", name=op.f("pk_evaluation_epochs")),
    )
    outcomes = ", ".join(f"'{outcome}'" for outcome in OUTCOMES)
    op.create_table(
        "epoch_scores",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("candidate", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("merit", sa.Double(), nullable=True),
        sa.Column("reward", sa.Double(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("queue_seconds", sa.Double(), nullable=True),
        sa.Column("memoised", sa.Boolean(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("metrics", JSON, nullable=False),
        sa.CheckConstraint(f"outcome IN ({outcomes})", name=op.f("ck_epoch_scores_outcome_known")),
        sa.CheckConstraint(
            "(outcome = 'ok') = (score IS NOT NULL)", name=op.f("ck_epoch_scores_score_if_and_only_if_ok")
        ),
        sa.CheckConstraint(
            "merit = score OR merit = -score OR (merit IS NULL AND score IS NULL)",
            name=op.f("ck_epoch_scores_merit_of_score"),
        ),
        sa.CheckConstraint("score > -1e308 AND score < 1e308", name=op.f("ck_epoch_scores_score_finite")),
        sa.CheckConstraint("reward > -1e308 AND reward < 1e308", name=op.f("ck_epoch_scores_reward_finite")),
        sa.ForeignKeyConstraint(
            ["run_id", "candidate"],
            ["candidates.run_id", "candidates.candidate"],
            name=op.f("fk_epoch_scores_run_id_candidate"),
        ),
        sa.PrimaryKeyConstraint("run_id", "epoch", "candidate", name=op.f("pk_epoch_scores")),
    )
    op.get_bind().exec_driver_sql(RESCORES)


def downgrade() -> None:
    op.get_bind().exec_driver_sql("DROP VIEW rescores")
    op.drop_table("epoch_scores")
    op.drop_table("evaluation_epochs")
