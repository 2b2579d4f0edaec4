"""A head that keeps what it knows in Redis is killed and started again: the actors of other nodes remain."""

import shutil
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest

from pace_async.evaluate.base import EvaluationRequest
from pace_async.evaluate.on_ray import fleet
from pace_async.evaluate.on_ray.placed import PlacedActor
from tests.doubles.evaluators import request
from tests.support.needed import skipped_without
from tests.support.ray_held import DEADLINE_S, PROGRAM, Opened, opened, outcomes, process_ended
from tests.support.ray_nodes import NEEDS_RAY, RayNodes, ray_nodes
from tests.support.redis import redis_server

NEEDS_REDIS = skipped_without(
    "REDIS", shutil.which("redis-server") is not None, "Redis is not installed (apt install redis-server)"
)
pytestmark = [NEEDS_RAY, NEEDS_REDIS, pytest.mark.long, pytest.mark.timeout(600)]
OK, LOST = (1, "ok", True), (1, "infrastructure_error", False)


@pytest.fixture
def stored() -> Generator[RayNodes]:
    """The head has one slot, and so has another node."""
    with redis_server() as redis, ray_nodes(1, 1, redis=redis) as nodes:
        yield nodes


async def one_on_each(on_ray: Opened) -> dict[str, EvaluationRequest]:
    """An evaluation that is held on each node, by the node."""
    asked: dict[str, EvaluationRequest] = {}
    for one in (request(PROGRAM), request(PROGRAM)):
        await on_ray.evaluator.submit(one)
        asked[(await on_ray.begun()).node.id] = one
    assert len(asked) == 2
    return asked


async def restarted(nodes: RayNodes, actor: int) -> None:
    """Kill all processes of the head, wait for the end of its actor, and start the head again at its port."""
    await anyio.to_thread.run_sync(nodes.kill, nodes.nodes[0])
    await process_ended(actor)
    await anyio.to_thread.run_sync(nodes.add, 1, nodes.port)
    nodes.nodes.reverse()  # the head is the first one


@pytest.mark.fault("Machines", "the head restarted with what it knew")
@pytest.mark.nightly
async def test_only_what_ran_on_the_head_is_lost_with_it_for_this_runtime_and_for_the_next(
    stored: RayNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added, add = anyio.Event(), fleet.Fleet._add

    def add_and_tell(self: fleet.Fleet, placed: PlacedActor) -> None:
        add(self, placed)
        if placed.node.id == stored.nodes[0]:
            added.set()

    monkeypatch.setattr(fleet, "LOOK_S", 0.5)
    async with opened(stored, tmp_path, outlives=True) as on_ray:
        asked, (head, other) = await one_on_each(on_ray), stored.nodes
        actors = {placed.node.id: placed.ready.pid for placed in on_ray.evaluator.fleet.living}
        monkeypatch.setattr(fleet.Fleet, "_add", add_and_tell)
        await restarted(stored, actors[head])
        on_ray.let_held_go()  # the one on the other node, whose result waits there until the runtime is connected again
        assert (await outcomes(on_ray, asked[other]))[1] == [OK]
        await on_ray.begun()
        on_ray.let_held_go()
        assert (await outcomes(on_ray, asked[head]))[1] == [LOST, (2, "ok", True)]
        assert on_ray.begins() == 2 + 1
        assert [kind for kind, _ in on_ray.said] == ["actor_lost"]
        assert f"-{head[:6]}: " in on_ray.said[0][1]
        with anyio.fail_after(DEADLINE_S):
            await added.wait()
        asked = await one_on_each(on_ray)
        ends = {placed.node.id: placed.ready.pid for placed in on_ray.evaluator.fleet.living}[stored.nodes[0]]
        for one in asked.values():
            await on_ray.evaluator.leave(one.id)
    await restarted(stored, ends)
    on_ray.let_held_go()
    on_ray.let_go()
    async with opened(stored, tmp_path, outlives=True) as resumed:
        assert actors[other] in {placed.ready.pid for placed in resumed.evaluator.fleet.living}
        for one in asked.values():
            await resumed.evaluator.submit(one)
        assert [(await outcomes(resumed, one))[1] for one in asked.values()] == [[OK], [OK]]
        assert resumed.begins() == 3 + 2 + 1
        assert not resumed.said
    await process_ended(actors[other])
