"""Objectives inside a run on simulated stages: the alpha that is recorded, and skips by branch."""

from pathlib import Path

import anyio
import pytest

from pace_async.objectives import NO_SPREADS, alpha_at
from pace_async.runtime.supervisor import drive
from pace_async.simulate.runs import HORIZON
from pace_async.simulate.stages import World
from tests.simulated import settings, simulated

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


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
            stop__candidates=candidates,
        )
        async with simulated(tmp_path, config, World(seed=4)) as run:
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
