"""A node that is silent, a runtime that never comes back, a head that is gone."""

import os
import signal
from pathlib import Path

import anyio
import pytest

from pace_async.config import EvaluationConfig
from pace_async.evaluate.base import Evaluation
from tests.doubles.evaluators import request
from tests.support.ray_held import DEADLINE_S, PROGRAM, opened, outcomes, process_ended
from tests.support.ray_nodes import NEEDS_RAY, RayNodes, ray_nodes

pytestmark = [NEEDS_RAY, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.mark.fault("Machines", "no runtime comes back: the evaluator ends its programs and itself")
async def test_an_actor_that_no_runtime_asks_again_ends_its_programs_and_itself(
    cluster: RayNodes, tmp_path: Path
) -> None:
    short = EvaluationConfig(warm=False, retries=1, ray_silence_s=1.0, ray_goes_on_s=2.0, ray_keeps_s=4.0)
    async with opened(cluster, tmp_path, slots=1, outlives=True, evaluation=short) as left:
        asked = request(PROGRAM)
        await left.evaluator.submit(asked)
        pid = (await left.begun()).ready.pid
        await left.evaluator.leave(asked.id)
    await process_ended(pid)
    left.let_go()
    async with opened(cluster, tmp_path, slots=1, outlives=True) as again:
        await again.evaluator.submit(asked)
        found, attempts = await outcomes(again, asked)
        assert (found.score, attempts) == (7, [(1, "ok", True)])
        assert again.begins() == 2


@pytest.mark.fault("Machines", "a node's evaluator that stops and goes on: what it had is lost, and it is used again")
@pytest.mark.fault("Machines", "a result after its attempt was given up")
@pytest.mark.parametrize("ends", [True, False], ids=["has_ended", "still_runs"])
async def test_a_silent_actor_loses_its_attempts_and_what_it_finds_late_is_reported_and_not_used(
    ends: bool, cluster: RayNodes, tmp_path: Path
) -> None:
    """It answers again before its time is up, so it is used again. What still runs there then is ended."""
    silent = EvaluationConfig(warm=False, retries=1, ray_silence_s=10.0)
    async with opened(cluster, tmp_path, slots=2, evaluation=silent) as on_ray:
        asked, on_ray.paused["actor_silent"] = request(PROGRAM), anyio.Event()
        await on_ray.evaluator.submit(asked)
        placed = await on_ray.begun()
        os.kill(placed.ready.pid, signal.SIGSTOP)
        on_ray.let_go()
        await on_ray.heard("actor_silent")
        os.kill(placed.ready.pid, signal.SIGCONT)
        cost = "was ended"
        if ends:
            on_ray.let_held_go()
            with anyio.fail_after(DEADLINE_S):
                late: Evaluation = await placed.actor.call("result", asked.id)
            assert (late.outcome, late.score) == ("ok", 7)
            cost = f"came late, ok after {late.seconds:.1f} s"
        on_ray.paused["actor_silent"].set()
        found, attempts = await outcomes(on_ray, asked)
        assert (found.score, attempts) == (7, [(1, "infrastructure_error", False), (2, "ok", True)])
        which = f"node {placed.node.name}: lease {asked.lease}, stage full, attempt 1"
        assert await on_ray.heard("late_result") == f"{which} {cost}; it is not used"
        await on_ray.heard("actor_back")
        assert placed in on_ray.evaluator.fleet.living
        assert on_ray.evaluator.machines().slots == 2


@pytest.mark.fault("Machines", "the head gone, and a new one at its address")
@pytest.mark.nightly
async def test_a_head_that_is_gone_loses_attempts_and_the_next_one_at_its_address_gets_new_actors(
    tmp_path: Path,
) -> None:
    impatient = EvaluationConfig(warm=False, retries=1, ray_silence_s=6.0)
    with ray_nodes(2) as first:
        async with opened(first, tmp_path, slots=1, evaluation=impatient) as on_ray:
            asked, next_one = request(PROGRAM), request(PROGRAM)
            await on_ray.evaluator.submit(asked)
            await on_ray.begun()
            on_ray.let_go()
            first.end_all()
            await on_ray.heard("actor_silent")
            with ray_nodes(2, port=first.port):
                found, attempts = await outcomes(on_ray, asked)
                assert (found.score, attempts) == (7, [(1, "infrastructure_error", False), (2, "ok", True)])
                await on_ray.evaluator.submit(next_one)
                assert (await outcomes(on_ray, next_one))[1] == [(1, "ok", True)]
