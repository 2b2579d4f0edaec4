"""Room for evaluations that wait is asked of the cluster's autoscaler, and withdrawn when none waits."""

from pathlib import Path

import anyio
import pytest

from pace_async.config import EvaluationConfig
from pace_async.evaluate.on_ray import fleet
from pace_async.evaluate.on_ray.cluster import Cluster
from pace_async.evaluate.on_ray.placed import requested
from tests.doubles.evaluators import request
from tests.support.ray_held import DEADLINE_S, PROGRAM, opened, outcomes
from tests.support.ray_nodes import NEEDS_RAY, ray_nodes


@pytest.mark.parametrize(
    ("has", "waiting", "most", "slots"), [(2, 0, 8, 0), (2, 3, 8, 5), (0, 1, 8, 1), (2, 1000, 8, 8), (8, 5, 8, 8)]
)
def test_room_is_asked_for_all_that_waits_within_the_slots_of_the_run(
    has: int, waiting: int, most: int, slots: int
) -> None:
    assert requested({"CPU": 2, "licence": 1}, has, waiting, most) == [{"CPU": 2, "licence": 1}] * slots


@NEEDS_RAY
@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.nightly
async def test_what_waits_asks_for_room_the_node_that_comes_gets_an_actor_and_the_end_withdraws_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begins without room: the head has no processor."""
    asked, changed = list[int](), anyio.Event()
    answer = Cluster.request

    async def request_and_tell(self: Cluster, bundles: list[dict[str, float]]) -> None:
        await answer(self, bundles)
        asked.append(len(bundles))
        changed.set()

    async def last(count: int) -> None:
        nonlocal changed
        with anyio.fail_after(DEADLINE_S):
            while asked[-1] != count:
                changed = anyio.Event()
                await changed.wait()

    monkeypatch.setattr(Cluster, "request", request_and_tell)
    monkeypatch.setattr(fleet, "LOOK_S", 0.5)
    scales = EvaluationConfig(warm=False, retries=1, ray_scales=True)
    with ray_nodes(0) as nodes, anyio.fail_after(3 * DEADLINE_S):
        async with anyio.create_task_group() as group:

            async def join() -> None:
                await changed.wait()
                await anyio.to_thread.run_sync(nodes.add, 1)

            group.start_soon(join)
            async with opened(nodes, tmp_path, slots=2, evaluation=scales) as on_ray:
                first, second = request(PROGRAM), request(PROGRAM)
                await on_ray.evaluator.submit(first)
                await on_ray.begun()
                await on_ray.evaluator.submit(second)
                await last(2)
                await anyio.to_thread.run_sync(nodes.add, 1)
                on_ray.let_go()
                assert (await outcomes(on_ray, second))[1] == [(1, "ok", True)]
                on_ray.let_held_go()
                assert (await outcomes(on_ray, first))[1] == [(1, "ok", True)]
                await last(0)
    assert asked[0] == 2
