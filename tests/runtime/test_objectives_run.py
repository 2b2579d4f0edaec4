"""Objectives inside a run on simulated stages: the alpha that is recorded, and skips by branch."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from pace_async.objectives import NO_SPREADS, advantages, alpha_at
from pace_async.replay.groupfile import read_digested
from pace_async.reward import RewardRule
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.runs import HORIZON, SimulatedFaults
from pace_async.simulate.stages import World
from tests.support.simulated_runs import settings, simulated


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["compression", "code"])
async def test_alpha_follows_from_the_groups_recorded_before_it_also_after_a_resume(
    tmp_path: Path, schedule: str
) -> None:
    for candidates in (24, 48):
        config = settings(
            learner__alpha_schedule=schedule,
            learner__group_size=4,
            learner__k=2,
            search__threads=4,
            staleness__mode="sync",  # so that the seed alone decides what the rewards are
            stop__candidates=candidates,
        )
        async with simulated(tmp_path, config, World(seed=5)) as run:
            with anyio.fail_after(60):
                assert await drive(run.core) == "done"
            groups = await run.store.query("select group_number, alpha from groups order by group_number")
            leases = await run.store.query("select group_number, group_reward from leases order by lease")
    spreads = NO_SPREADS
    for row in groups:
        before = row["group_number"] - 1
        assert row["alpha"] == pytest.approx(alpha_at(config.learner.alpha_schedule, before, HORIZON, spreads=spreads))
        spreads = spreads.after([lease["group_reward"] for lease in leases if lease["group_number"] == before + 1])
    assert len(groups) == 12
    if schedule == "compression":
        assert any(row["alpha"] > 0 for row in groups)


@pytest.mark.fault("Replay and learner", "all failed")
async def test_groups_whose_candidates_all_failed_are_skipped_counted_and_never_reach_the_learner(
    tmp_path: Path,
) -> None:
    config = settings(stop__candidates=None, stop__updates=3)
    async with simulated(tmp_path, config, World(seed=1), SimulatedFaults(fails_every=1)) as run:
        with anyio.fail_after(60):
            assert await drive(run.core) == "done"
        groups = await run.store.query("select state, reason, update_number, digest from groups order by group_number")
        [served] = await run.store.query("select max(version) as newest from versions")
        closed = await run.store.query("select advantage, trained_by from leases where state = 'skipped'")
    assert [(row["state"], row["update_number"]) for row in groups] == [("skipped", 0)] * 3
    assert {row["reason"] for row in groups} == {"group branch collapsed"}
    assert {row["digest"] for row in groups} == {""}
    assert (served["newest"], run.learner.trained) == (0, [])
    assert [(row["advantage"], row["trained_by"]) for row in closed] == [(None, None)] * 24


@pytest.mark.parametrize(("collapsed", "later"), [("other_branch", "trained"), ("skip", "skipped")])
async def test_failures_among_equal_rewards_train_unless_the_setting_skips_them(
    tmp_path: Path, collapsed: str, later: str
) -> None:
    """No score leaves the lower bound, so every reward is 0 or -1. With k = 8 no rollout adds to the best. alpha
    is 0 at the first group alone."""
    config = settings(stop__candidates=16, staleness__mode="sync", learner__collapsed=collapsed, learner__k=8)
    async with simulated(tmp_path, config, World(seed=1), SimulatedFaults(fails_every=4, reach=0.0)) as run:
        with anyio.fail_after(60):
            assert await drive(run.core) == "done"
        groups = await run.store.query("select state, alpha, reason from groups order by group_number")
        leases = await run.store.query("select group_number, group_reward, advantage from leases order by lease")
    assert [row["alpha"] > 0 for row in groups] == [False, True]
    assert [row["state"] for row in groups] == ["trained", later]
    assert {row["reason"] for row in groups if row["state"] == "skipped"} <= {"frontier branch collapsed"}
    for number, state in enumerate(["trained", later], start=1):
        rows = [row for row in leases if row["group_number"] == number]
        rewards = [row["group_reward"] for row in rows]
        assert set(rewards) == {0.0, -1.0}
        grpo = advantages("grpo", rewards, k=8, alpha=0.0)
        assert [row["advantage"] for row in rows] == (grpo if state == "trained" else [None] * 8)


@pytest.mark.long
@pytest.mark.parametrize("masks", [False, True])
async def test_rollouts_with_an_answer_that_was_cut_off_train_nothing_if_a_setting_says_so(
    tmp_path: Path, masks: bool
) -> None:
    given: dict[str, Any] = {"staleness__mode": "sync", "learner__mask_cut_off": masks, "learner__rollback": False}
    longest = "select max(completion_tokens) as tokens from advisor_calls where purpose = 'select'"
    async with simulated(tmp_path / "free", settings(stop__candidates=16, **given), World(seed=3)) as run:
        await drive(run.core)
        [row] = await run.store.query(longest)
    given["advisor__max_tokens_by_call"] = {"select": row["tokens"] - 1}
    for candidates in (24, 48):  # the second time in a resume
        async with simulated(tmp_path, settings(stop__candidates=candidates, **given), World(seed=3)) as run:
            assert await drive(run.core) == "done"
            cut = await run.store.query(
                "select lease from leases where lease in "
                "(select candidate from candidates where detail like 'select did not end within%')"
            )
            trained = await run.store.query("select lease from leases where state = 'trained'")
            folder = run.core.groups_folder
    leases, short = {row["lease"] for row in trained}, {row["lease"] for row in cut}
    told = [read_digested(path)[0] for path in sorted(folder.glob("*.safetensors"))]
    in_files = {lease for group in told for lease in group.leases}
    assert leases & short
    assert leases - short
    assert in_files == (leases - short if masks else leases)


@pytest.mark.parametrize("relative_to", ["parent", "seed"])
async def test_relative_rewards_are_those_of_the_recorded_scores_also_after_a_resume(
    tmp_path: Path, relative_to: str
) -> None:
    for candidates in (12, 24):
        config = settings(stop__candidates=candidates, reward__relative_to=relative_to, learner__alpha_schedule="code")
        async with simulated(tmp_path, config, World(seed=4)) as run:
            with anyio.fail_after(60):
                assert await drive(run.core) == "done"
            rows = await run.store.query("select candidate, parent, score, reward from candidates order by candidate")
            groups = await run.store.query("select lease, group_reward from leases where group_number is not null")
            spec = run.core.task.spec
    rule, scores = RewardRule.of(config.reward, spec), {row["candidate"]: row["score"] for row in rows}
    assert len(rows) == 25
    for row in rows:
        if row["candidate"]:
            wanted = rule.of_score(row["score"], parent=scores[row["parent"]], seed=scores[0])
            assert row["reward"] == wanted
    rewards = {row["candidate"]: row["reward"] for row in rows}
    assert {row["lease"]: row["group_reward"] for row in groups}.items() <= rewards.items()
    if relative_to == "parent":
        assert any(-1 < row["reward"] < 0 for row in rows)
