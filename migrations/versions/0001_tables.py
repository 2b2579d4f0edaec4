"""The tables of a population: runs, search, rollouts, groups, versions.

What each column means stands in `pace_async/population/models.py`; this file stays as it was when it was released.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(JSONB(), "postgresql")
TABLES = (
    "runs",
    "groups",
    "islands",
    "run_states",
    "leases",
    "versions",
    "advisor_calls",
    "candidates",
    "faults",
    "ideas",
    "implementer_calls",
    "experiments",
    "proposals",
)


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("task_digest", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("objective", sa.Text(), nullable=False),
        sa.Column("advisor", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("implementer", sa.Text(), nullable=False),
        sa.Column("sandbox", sa.Text(), nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("group_size", sa.Integer(), nullable=False),
        sa.Column("max_staleness", sa.Integer(), nullable=False),
        sa.Column("horizon", sa.Integer(), nullable=False),
        sa.Column("lower", sa.Double(), nullable=False),
        sa.Column("upper", sa.Double(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("config", JSON, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.CheckConstraint("direction IN ('maximize', 'minimize')", name="ck_runs_direction_known"),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
        sa.UniqueConstraint("name", name="uq_runs_name"),
    )
    op.create_table(
        "groups",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("group_number", sa.Integer(), nullable=False),
        sa.Column("update_number", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("alpha", sa.Double(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("loss", sa.Double(), nullable=True),
        sa.Column("entropy", sa.Double(), nullable=True),
        sa.Column("grad_norm", sa.Double(), nullable=True),
        sa.Column("clip_fraction", sa.Double(), nullable=True),
        sa.Column("ess", sa.Double(), nullable=True),
        sa.Column("k3", sa.Double(), nullable=True),
        sa.Column("mean_ratio", sa.Double(), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("metrics", JSON, nullable=False),
        sa.Column("shipped_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.CheckConstraint("(state = 'shipped') = (ended_at IS NULL)", name="ck_groups_ended_once"),
        sa.CheckConstraint("state IN ('shipped', 'trained', 'skipped')", name="ck_groups_state_known"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_groups_run_id"),
        sa.PrimaryKeyConstraint("run_id", "group_number", name="pk_groups"),
    )
    op.create_table(
        "islands",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("island", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_islands_run_id"),
        sa.PrimaryKeyConstraint("run_id", "island", name="pk_islands"),
    )
    op.create_table(
        "run_states",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "state IN ('running', 'draining', 'done', 'stopped_by_budget', 'interrupted', 'gave_up', 'crashed')",
            name="ck_run_states_state_known",
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_run_states_run_id"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_run_states"),
    )
    op.create_table(
        "leases",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("island", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("admitted_version", sa.Integer(), nullable=False),
        sa.Column("deadline", sa.Integer(), nullable=False),
        sa.Column("oldest_version", sa.Integer(), nullable=True),
        sa.Column("group_number", sa.Integer(), nullable=True),
        sa.Column("staleness", sa.Integer(), nullable=True),
        sa.Column("group_reward", sa.Double(), nullable=True),
        sa.Column("advantage", sa.Double(), nullable=True),
        sa.Column("trained_by", sa.Integer(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("opened_at", sa.Double(), nullable=False),
        sa.Column("closed_at", sa.Double(), nullable=True),
        sa.CheckConstraint("(stage = 'shipped') = (group_number IS NOT NULL)", name="ck_leases_shipped_in_a_group"),
        sa.CheckConstraint("(state = 'open') = (closed_at IS NULL)", name="ck_leases_closed_once"),
        sa.CheckConstraint("(state = 'trained') = (trained_by IS NOT NULL)", name="ck_leases_trained_by_an_update"),
        sa.CheckConstraint("stage IN ('admitted', 'advised', 'complete', 'shipped')", name="ck_leases_stage_known"),
        sa.CheckConstraint(
            "state IN ('open', 'trained', 'skipped', 'aborted', 'expired')", name="ck_leases_state_known"
        ),
        sa.CheckConstraint("staleness >= 0", name="ck_leases_staleness_not_negative"),
        sa.ForeignKeyConstraint(
            ["run_id", "group_number"], ["groups.run_id", "groups.group_number"], name="fk_leases_run_id_group_number"
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "island"], ["islands.run_id", "islands.island"], name="fk_leases_run_id_island"
        ),
        sa.PrimaryKeyConstraint("run_id", "lease", name="pk_leases"),
    )
    op.create_index("ix_leases_run_id_group_number", "leases", ["run_id", "group_number"])
    op.create_index("ix_leases_run_id_state_stage", "leases", ["run_id", "state", "stage"])
    op.create_table(
        "versions",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("group_number", sa.Integer(), nullable=True),
        sa.Column("weights", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("written_at", sa.Double(), nullable=False),
        sa.Column("published_at", sa.Double(), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("paused_seconds", sa.Double(), nullable=True),
        sa.Column("receipt", JSON, nullable=True),
        sa.CheckConstraint("(state = 'published') = (published_at IS NOT NULL)", name="ck_versions_published_once"),
        sa.CheckConstraint("state IN ('written', 'published')", name="ck_versions_state_known"),
        sa.CheckConstraint("(version = 0) = (group_number IS NULL)", name="ck_versions_written_by_a_group"),
        sa.ForeignKeyConstraint(
            ["run_id", "group_number"], ["groups.run_id", "groups.group_number"], name="fk_versions_run_id_group_number"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_versions_run_id"),
        sa.PrimaryKeyConstraint("run_id", "version", name="pk_versions"),
    )
    op.create_table(
        "advisor_calls",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column("oldest_version", sa.Integer(), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("prompt_ids", sa.LargeBinary(), nullable=False),
        sa.Column("completion_ids", sa.LargeBinary(), nullable=False),
        sa.Column("logprobs", sa.LargeBinary(), nullable=False),
        sa.Column("spans", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("purpose IN ('propose', 'assess', 'select')", name="ck_advisor_calls_purpose_known"),
        sa.CheckConstraint("length(logprobs) = 4 * completion_tokens", name="ck_advisor_calls_a_logprob_per_token"),
        sa.ForeignKeyConstraint(
            ["run_id", "lease"], ["leases.run_id", "leases.lease"], name="fk_advisor_calls_run_id_lease"
        ),
        sa.PrimaryKeyConstraint("run_id", "lease", "ordinal", name="pk_advisor_calls"),
    )
    op.create_table(
        "candidates",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("candidate", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=True),
        sa.Column("island", sa.Integer(), nullable=True),
        sa.Column("parent", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("merit", sa.Double(), nullable=True),
        sa.Column("reward", sa.Double(), nullable=False),
        sa.Column("mechanism", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("memoised", sa.Boolean(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("metrics", JSON, nullable=False),
        sa.Column("program_hash", sa.Text(), nullable=True),
        sa.Column("program", sa.Text(), nullable=True),
        sa.CheckConstraint("(outcome = 'ok') = (score IS NOT NULL)", name="ck_candidates_score_if_and_only_if_ok"),
        sa.CheckConstraint("outcome <> 'ok' OR program IS NOT NULL", name="ck_candidates_program_if_ok"),
        sa.CheckConstraint(
            "outcome IN ('ok', 'candidate_error', 'timeout', 'out_of_memory', 'output_overflow', "
            "'invalid_score', 'suspicious', 'unparsed', 'not_implemented', 'unchanged')",
            name="ck_candidates_outcome_known",
        ),
        sa.CheckConstraint(
            "(candidate = 0 AND lease IS NULL) OR candidate = lease", name="ck_candidates_candidate_is_its_lease"
        ),
        sa.CheckConstraint(
            "merit = score OR merit = -score OR (merit IS NULL AND score IS NULL)", name="ck_candidates_merit_of_score"
        ),
        sa.CheckConstraint("reward > -1e308 AND reward < 1e308", name="ck_candidates_reward_finite"),
        sa.CheckConstraint("score > -1e308 AND score < 1e308", name="ck_candidates_score_finite"),
        sa.ForeignKeyConstraint(
            ["run_id", "island"], ["islands.run_id", "islands.island"], name="fk_candidates_run_id_island"
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "lease"], ["leases.run_id", "leases.lease"], name="fk_candidates_run_id_lease"
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "parent"], ["candidates.run_id", "candidates.candidate"], name="fk_candidates_run_id_parent"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_candidates_run_id"),
        sa.PrimaryKeyConstraint("run_id", "candidate", name="pk_candidates"),
    )
    op.create_index("ix_candidates_rank", "candidates", ["run_id", sa.text("merit DESC"), "candidate"])
    op.create_index("ix_candidates_run_id_at_candidate", "candidates", ["run_id", "at", "candidate"])
    op.create_table(
        "faults",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id", "lease"], ["leases.run_id", "leases.lease"], name="fk_faults_run_id_lease"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_faults_run_id"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_faults"),
    )
    op.create_table(
        "ideas",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("island", sa.Integer(), nullable=False),
        sa.Column("idea", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "island"], ["islands.run_id", "islands.island"], name="fk_ideas_run_id_island"
        ),
        sa.ForeignKeyConstraint(["run_id", "lease"], ["leases.run_id", "leases.lease"], name="fk_ideas_run_id_lease"),
        sa.PrimaryKeyConstraint("run_id", "island", "idea", name="pk_ideas"),
    )
    op.create_table(
        "implementer_calls",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.CheckConstraint("cost_usd >= 0 AND cost_usd < 1e308", name="ck_implementer_calls_cost_not_negative"),
        sa.ForeignKeyConstraint(
            ["run_id", "lease"], ["leases.run_id", "leases.lease"], name="fk_implementer_calls_run_id_lease"
        ),
        sa.PrimaryKeyConstraint("run_id", "lease", "ordinal", name="pk_implementer_calls"),
    )
    op.create_table(
        "experiments",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("island", sa.Integer(), nullable=False),
        sa.Column("parent", sa.Integer(), nullable=False),
        sa.Column("idea", sa.Integer(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "island", "idea"],
            ["ideas.run_id", "ideas.island", "ideas.idea"],
            name="fk_experiments_run_id_island_idea",
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "lease"], ["leases.run_id", "leases.lease"], name="fk_experiments_run_id_lease"
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "parent"], ["candidates.run_id", "candidates.candidate"], name="fk_experiments_run_id_parent"
        ),
        sa.PrimaryKeyConstraint("run_id", "lease", name="pk_experiments"),
    )
    op.create_table(
        "proposals",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("island", sa.Integer(), nullable=False),
        sa.Column("idea", sa.Integer(), nullable=False),
        sa.Column("known", sa.Boolean(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "island", "idea"],
            ["ideas.run_id", "ideas.island", "ideas.idea"],
            name="fk_proposals_run_id_island_idea",
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "lease"], ["leases.run_id", "leases.lease"], name="fk_proposals_run_id_lease"
        ),
        sa.PrimaryKeyConstraint("run_id", "lease", "ordinal", name="pk_proposals"),
    )


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)
