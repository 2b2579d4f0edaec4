"""The runtime over the real database, with simulated stages: bound, conservation, resume, faults, ends."""

from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from pace_async.errors import GaveUp, UsageError
from pace_async.events import SettingChanged
from pace_async.runtime.start.resuming import resumed_config
from pace_async.runtime.start.supervisor import drive
from pace_async.search.draws import derive
from pace_async.simulate.runs import SimulatedFaults
from pace_async.simulate.stages import World
from tests.support.simulated_runs import Simulated, settings, simulated


async def counts(run: Simulated) -> dict[str, Any]:
    """Leases by state, and the stalest trained one."""
    rows = await run.store.query("select state, count(*) n from leases group by state")
    worst = await run.store.query("select max(staleness) worst from leases where state = 'trained'")
    return {row["state"]: row["n"] for row in rows} | {"worst": worst[0]["worst"]}


def bound_held(run: Simulated) -> bool:
    """By the learner's own account, not by the runtime's."""
    return all(update - oldest <= run.core.state.bound for _, update, oldest in run.learner.trained)


@pytest.mark.fault("Replay and learner", "bound 0", only="8-0")
@pytest.mark.fault("Replay and learner", "bound 1", only="20-1")
@pytest.mark.fault("Replay and learner", "bound 2", only="8-2")
@pytest.mark.parametrize(("threads", "bound"), [(1, 2), (8, 0), (8, 2), (20, 1), (24, 3)])
async def test_a_run_trains_every_full_group_within_the_bound(tmp_path: Path, threads: int, bound: int) -> None:
    config = settings(search__threads=threads, staleness__max_staleness=bound, stop__candidates=64)
    async with simulated(tmp_path, config, World(seed=threads)) as run:
        with anyio.fail_after(60):
            assert await drive(run.core) == "done"
        found = await counts(run)
        assert found["trained"] == 64
        assert set(found) == {"trained", "worst"}
        assert found["worst"] <= bound
        assert bound_held(run)
        assert run.core.state.learner == run.world.served == 8
        rows = await run.store.query("select count(*) n from candidates where candidate > 0")
        assert rows[0]["n"] == 64


async def test_sync_is_a_barrier_and_nothing_is_ever_stale(tmp_path: Path) -> None:
    config = settings(staleness__mode="sync", stop__candidates=32)
    async with simulated(tmp_path, config, World(seed=5)) as run:
        assert await drive(run.core) == "done"
        assert (await counts(run))["worst"] == 0
        rows = await run.store.query("select lease, admitted_version v from leases order by lease")
        assert [row["v"] for row in rows] == [lease // 8 for lease in range(32)]


@pytest.mark.long
async def test_async_rollouts_are_sampled_from_later_and_later_versions(tmp_path: Path) -> None:
    config = settings(stop__candidates=80)
    async with simulated(tmp_path, config, World(seed=1)) as run:
        await drive(run.core)
        rows = await run.store.query("select distinct oldest_version v from leases order by v")
        assert len(rows) >= 5


async def test_infrastructure_faults_close_leases_as_aborted_and_are_never_rewarded(tmp_path: Path) -> None:
    def fails(stage: str, number: int) -> bool:
        """A fifth, the same ones in whatever order rollouts end: of six steps the third, and of six pushes two."""
        return stage in ("evaluate", "publish", "learn") and derive(3, stage, number) % 5 == 0

    world = World(seed=3, fails=fails)
    async with simulated(tmp_path, settings(stop__candidates=48, faults__retries=0), world) as run:
        with anyio.fail_after(60):
            assert await drive(run.core) == "done"
        found = await counts(run)
        assert found["aborted"] > 0
        assert found["trained"] + found.get("open", 0) == 48
        rows = await run.store.query("select count(*) n from candidates where candidate > 0")
        assert rows[0]["n"] == 48
        assert (await run.store.query("select count(*) n from faults"))[0]["n"] > 0
        assert bound_held(run)


async def test_discarded_steps_leave_the_version_and_do_not_deadlock(tmp_path: Path) -> None:
    config = settings(stop__candidates=64, staleness__max_staleness=1)
    async with simulated(tmp_path, config, World(seed=2), SimulatedFaults(discard_every=3)) as run:
        with anyio.fail_after(60):
            assert await drive(run.core) == "done"
        found = await counts(run)
        assert found["skipped"] == 16
        assert found["trained"] == 48
        assert run.core.state.learner == 6


async def test_without_an_objective_leases_close_on_completion(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(learner__objective="none", stop__candidates=20), World()) as run:
        assert await drive(run.core) == "done"
        assert await counts(run) == {"skipped": 20, "worst": None}


class Crowd(World):
    """Evaluations wait until `wanted` of them run at once."""

    def __init__(self, wanted: int) -> None:
        super().__init__()
        self.missing, self.complete = wanted, anyio.Event()

    async def stage(self, name: str, key: int = 0, share: float = 1.0) -> float:
        seconds = await super().stage(name, key, share)
        if name == "evaluate":
            self.missing -= 1
            if self.missing == 0:
                self.complete.set()
            await self.complete.wait()
        return seconds


async def test_without_an_objective_every_thread_works_however_low_the_bound(tmp_path: Path) -> None:
    """Nothing is trained, so nothing becomes stale: B = 8 and a bound of 0 would let 8 of 20 threads work."""
    shape = {"search__threads": 20, "staleness__max_staleness": 0, "stop__candidates": 40}
    config = settings(learner__objective="none", **shape)
    async with simulated(tmp_path, config, Crowd(20), SimulatedFaults(unparsed_every=0)) as run:
        with anyio.fail_after(60):
            assert await drive(run.core) == "done"
        assert await counts(run) == {"skipped": 40, "worst": None}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
async def test_a_run_cancelled_anywhere_resumes_without_losing_or_repeating(tmp_path: Path, seed: int) -> None:
    """Some rollouts fail, but never all of a group, which would rightly be skipped."""
    config, faults = settings(seed=seed, stop__candidates=48), SimulatedFaults(unparsed_every=29, fails_every=31)
    draw = Random(seed)
    trained: list[tuple[int, int, int]] = []
    for _ in range(4):
        async with simulated(tmp_path, config, World(seed=seed), faults) as run:
            before = {row["candidate"] for row in await run.store.query("select candidate from candidates")}
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(drive, run.core)
                reached = min(47, run.core.state.evaluated + draw.randint(1, 12))
                await run.core.wait_until(lambda run=run, reached=reached: run.core.state.evaluated >= reached)
                for _ in range(draw.randint(0, 20)):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            after = {row["candidate"] for row in await run.store.query("select candidate from candidates")}
            assert before <= after
            trained += run.learner.trained
    async with simulated(tmp_path, config, World(seed=seed), faults) as run:
        with anyio.fail_after(60):
            assert await drive(run.core) == "done"
        assert bound_held(run)
        trained += run.learner.trained
        found = await counts(run)
        assert found["trained"] == 48
        assert found["worst"] <= 2
        assert sorted(number for number, _, _ in set(trained)) == [1, 2, 3, 4, 5, 6], "the same update every time"


@pytest.mark.parametrize(
    ("rule", "reason"),
    [({"stop__updates": 3, "stop__candidates": None}, "updates"), ({"stop__target": 0.5}, "target")],
)
async def test_the_first_stop_rule_that_is_met_ends_the_run(tmp_path: Path, rule: dict[str, Any], reason: str) -> None:
    async with simulated(tmp_path, settings(**rule), World()) as run:
        with anyio.fail_after(60):
            assert await drive(run.core) == "done"
        rows = await run.store.query("select reason from run_states order by number desc limit 1")
        assert rows[0]["reason"] == reason


async def test_an_interrupted_run_drains_and_leaves_what_is_complete_for_resume(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(stop__candidates=400), World(seed=9)) as run:

        async def interrupt() -> None:
            await run.core.wait_until(lambda: run.core.state.evaluated >= 30)
            run.core.stop("interrupted")

        async with anyio.create_task_group() as group:
            group.start_soon(interrupt)
            with anyio.fail_after(60):
                assert await drive(run.core) == "interrupted"
        assert not run.core.state.running
        found = await counts(run)
        rows = await run.store.query("select count(*) n from leases")
        assert rows[0]["n"] == found.get("open", 0) + found["trained"]


async def test_a_learner_that_stays_down_ends_the_run_with_a_message(tmp_path: Path) -> None:
    config = settings(faults__patience_s=0.05)
    world = World(fails=lambda stage, _: stage == "learn")
    async with simulated(tmp_path, config, world) as run:
        with pytest.raises(GaveUp, match="learner could not train"), anyio.fail_after(60):
            await drive(run.core)
        rows = await run.store.query("select state from run_states order by number desc limit 1")
        assert rows[0]["state"] == "gave_up"


@pytest.mark.long
@pytest.mark.fault("Replay and learner", "bound lowered on resume is refused")
async def test_a_resume_may_raise_the_bound_and_nothing_else_of_it(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(stop__candidates=16), World()) as run:
        with anyio.fail_after(60):
            await drive(run.core)
        before = await run.store.load()
        raised = resumed_config(before, {"staleness.max_staleness": 4})
        assert raised.bound == 4
        await run.store.commit(SettingChanged("staleness.max_staleness", "2", "4", 1.0))
        after = await run.store.load()
        assert after.header.max_staleness == 4
        assert resumed_config(after, {}).bound == 4
        with pytest.raises(UsageError, match="may not be lowered to 2"):
            resumed_config(after, {"staleness.max_staleness": 2})
        with pytest.raises(UsageError, match="sync or async"):
            resumed_config(after, {"staleness.mode": "sync", "staleness.max_staleness": 4})
    longer = settings(stop__candidates=160, staleness__max_staleness=4, search__threads=40)
    async with simulated(tmp_path, longer, World()) as run:
        with anyio.fail_after(60):
            assert await drive(run.core) == "done"
        deadlines = await run.store.query(
            "select deadline - admitted_version b, count(*) n from leases group by 1 order by 1"
        )
        assert [row["b"] for row in deadlines] == [2, 4]
        stale = await run.store.query("select max(staleness) s from leases")
        assert 2 < stale[0]["s"] <= 4
