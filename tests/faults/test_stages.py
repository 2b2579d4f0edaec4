"""Stages that fail, hang or lie, under the real runtime and database: the gate's counts hold, and nothing is tried
without a pause."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from pace_async.advise.base import Completion, Engine
from pace_async.errors import InfrastructureFault
from pace_async.events import TokenSpan
from pace_async.learn.base import Learner, Step
from pace_async.objectives.base import Collapsed, Parameters
from pace_async.objectives.phase_adaptive import phase_adaptive
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.runs import FAULTLESS
from pace_async.simulate.stages import World
from tests.doubles.evaluators import Held
from tests.doubles.populations import Counting
from tests.faults.invariants import assert_sound
from tests.support.changed_stages import change_stages
from tests.support.simulated_runs import settings, simulated

SHAPE: dict[str, Any] = {"search__threads": 6, "learner__group_size": 4, "learner__k": 2}
LONG_S = 100.0


@dataclass
class Stalled:
    """A learner that answers only once it is let go."""

    inner: Learner
    waiting: int = 0
    waits: anyio.Event = field(default_factory=anyio.Event)
    let_go: anyio.Event = field(default_factory=anyio.Event)

    async def train(self, group: Path) -> Step:
        self.waiting += 1
        self.waits.set()
        await self.let_go.wait()
        return await self.inner.train(group)


@pytest.mark.long
@pytest.mark.fault("Replay and learner", "learner stalled: the search waits, without a storm")
async def test_while_the_learner_stalls_the_search_fills_its_bound_and_waits(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(**SHAPE, stop__candidates=40), World(seed=1)) as run:
        assert run.core.stages.learner is not None
        stalled = Stalled(run.core.stages.learner)
        change_stages(run.core, learner=stalled)
        run.core.recorder.population = counted = Counting(run.core.recorder.population)
        full = (run.core.state.bound + 1) * run.core.state.size
        async with anyio.create_task_group() as group:
            group.start_soon(drive, run.core)
            with anyio.fail_after(LONG_S):
                await stalled.waits.wait()
                await run.core.wait_until(lambda: run.core.state.open == full and not run.core.state.running)
            await counted.quiet()
            assert stalled.waiting == 1
            assert run.core.state.evaluated == full
            stalled.let_go.set()
    assert_sound(tmp_path / "population.db", finished=True)


@pytest.mark.fault("Replay and learner", "search stalled")
async def test_while_every_evaluation_stalls_the_learner_waits(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(**SHAPE, stop__candidates=24), World(seed=1), FAULTLESS) as run:
        stalled = Held(run.core.stages.evaluator, until=0, threads=6)
        change_stages(run.core, evaluator=stalled)
        run.core.recorder.population = counted = Counting(run.core.recorder.population)
        async with anyio.create_task_group() as group:
            group.start_soon(drive, run.core)
            with anyio.fail_after(LONG_S):
                await stalled.all_wait.wait()
            await counted.quiet()
            assert run.learner.trained == []
            stalled.let_go.set()
    assert_sound(tmp_path / "population.db", finished=True)


@pytest.mark.long
@pytest.mark.fault("Replay and learner", "bound of a million")
@pytest.mark.parametrize("seed", [4, 8])
async def test_under_a_bound_of_a_million_the_threads_are_the_bottleneck_and_every_sound_group_trains(
    seed: int, tmp_path: Path
) -> None:
    config = settings(**SHAPE, learner__rollback=False, stop__candidates=40, staleness__max_staleness=1_000_000)
    async with simulated(tmp_path, config, World(seed=seed)) as run:
        with anyio.fail_after(LONG_S):
            assert await drive(run.core) == "done"
        [row] = await run.store.query("select count(*) n, min(deadline) d from leases where group_number is not null")
        groups = await run.store.query("select * from groups order by group_number")
        candidates = await run.store.query(
            "select l.group_number, c.reward from leases l join candidates c on c.run_id = l.run_id and "
            "c.lease = l.lease order by l.lease"
        )
    assert row["n"] == 40
    assert row["d"] == 1_000_000
    assert [group["group_number"] for group in groups] == list(range(1, 11))
    for group in groups:
        rewards = [lease["reward"] for lease in candidates if lease["group_number"] == group["group_number"]]
        assert len(rewards) == SHAPE["learner__group_size"]
        result = phase_adaptive(np.array(rewards), Parameters(k=SHAPE["learner__k"], alpha=group["alpha"]))
        useless = f"{result.branch} branch collapsed" if isinstance(result, Collapsed) else ""
        assert (group["state"], group["reason"]) == ("skipped" if useless else "trained", useless)
    assert_sound(tmp_path / "population.db", finished=True)


@dataclass
class Lying:
    """An engine of whose answers every fifth is no answer, as `client` finds it, or comes from weights that had been
    replaced before it was asked."""

    inner: Engine
    stale: bool = False
    calls: int = 0

    async def encode(self, text: str) -> tuple[int, ...]:
        return await self.inner.encode(text)

    async def decode(self, token_ids: tuple[int, ...]) -> str:
        return await self.inner.decode(token_ids)

    async def generate(
        self, prompt_ids: tuple[int, ...], *, max_tokens: int, temperature: float, seed: int
    ) -> Completion:
        self.calls += 1
        answer = await self.inner.generate(prompt_ids, max_tokens=max_tokens, temperature=temperature, seed=seed)
        if not self.stale and self.calls % 5 == 0:
            raise InfrastructureFault("bad_logprobs", "log-probability nan at token 0")
        if self.stale and self.calls % 5 == 0 and answer.spans[0].version > 0:
            return replace(answer, spans=(TokenSpan(0, 0, len(answer.token_ids)),))
        return answer


@pytest.mark.long
@pytest.mark.fault("Advisor and engine", "the rollout of a bad answer gives its place back, counted")
async def test_invalid_answers_are_requested_again_and_then_abort_the_lease(tmp_path: Path) -> None:
    config = settings(**SHAPE, stop__candidates=40, faults__retries=0)
    async with simulated(tmp_path, config, World(seed=6)) as run:
        assert run.core.stages.engine is not None
        change_stages(run.core, engine=Lying(run.core.stages.engine))
        with anyio.fail_after(LONG_S):
            assert await drive(run.core) == "done"
        [faults] = await run.store.query(
            "select count(*) n from faults where stage = 'advise' and kind = 'bad_logprobs'"
        )
        [leases] = await run.store.query(
            "select sum(state = 'aborted') aborted, sum(state in ('trained', 'skipped')) consumed,"
            " count(*) admitted from leases"
        )
        rewarded = await run.store.query(
            "select candidate from candidates c join leases l on l.lease = c.lease where l.state = 'aborted'"
        )
    assert faults["n"] >= leases["aborted"] > 0
    assert leases["consumed"] == 40
    assert leases["admitted"] == 40 + leases["aborted"]
    assert rewarded == []
    assert_sound(tmp_path / "population.db", finished=True)


@pytest.mark.fault("Weights", "an engine restarted with old weights")
async def test_an_answer_of_weights_older_than_the_published_ones_is_refused(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(**SHAPE, stop__candidates=28), World(seed=7)) as run:
        assert run.core.stages.engine is not None
        change_stages(run.core, engine=Lying(run.core.stages.engine, stale=True))
        with anyio.fail_after(LONG_S):
            assert await drive(run.core) == "done"
        noticed = await run.store.query("select kind from faults where stage = 'advise'")
        taken = await run.store.query("select lease from leases where oldest_version < admitted_version")
    assert {row["kind"] for row in noticed} - {"stage_paused", "stage_back"} == {"old_weights"}
    assert taken == []
    assert_sound(tmp_path / "population.db", finished=True)


@pytest.mark.long
@pytest.mark.fault("Weights", "a push that fails before the transfer")
async def test_while_pushes_fail_the_old_version_is_served_and_the_bound_holds(tmp_path: Path) -> None:
    world = World(seed=8, fails=lambda stage, call: stage == "publish" and call % 3 != 0)
    async with simulated(tmp_path, settings(**SHAPE, stop__candidates=40), world) as run:
        with anyio.fail_after(LONG_S):
            assert await drive(run.core) == "done"
        [failed] = await run.store.query("select count(*) n from faults where stage = 'publish'")
        [worst] = await run.store.query("select max(staleness) s from leases")
    assert failed["n"] >= 18
    assert worst["s"] <= 2
    assert_sound(tmp_path / "population.db", finished=True)
