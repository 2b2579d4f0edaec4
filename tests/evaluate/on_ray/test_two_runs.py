"""Two runs on one cluster: each has what it reserved, and nothing of the other's."""

from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskStatus

from pace_async.evaluate.on_ray import fleet
from pace_async.evaluate.on_ray.placed import PlacedActor
from tests.doubles.evaluators import request
from tests.support.ray_held import DEADLINE_S, PROGRAM, Opened, opened, outcomes
from tests.support.ray_nodes import NEEDS_RAY, ray_nodes

pytestmark = [NEEDS_RAY, pytest.mark.long, pytest.mark.timeout(600)]


async def all_scored(on_ray: Opened, count: int) -> None:
    """So many evaluations at once, each accepted at its first attempt."""
    asked = [request(PROGRAM) for _ in range(count)]
    for one in asked:
        await on_ray.evaluator.submit(one)
    for one in asked:
        found, attempts = await outcomes(on_ray, one)
        assert (found.score, attempts) == (7, [(1, "ok", True)])


def pids(on_ray: Opened) -> set[int]:
    return {placed.ready.pid for placed in on_ray.evaluator.fleet.living}


@pytest.mark.fault("Machines", "two runs on one cluster")
@pytest.mark.nightly
async def test_the_second_run_gets_what_is_free_and_later_the_nodes_of_the_first_but_never_its_actors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of the first begins that of the second, and each looks for actors that an earlier process left."""
    added, add, ends = anyio.create_memory_object_stream[PlacedActor](9), fleet.Fleet._add, anyio.Event()

    def add_and_tell(self: fleet.Fleet, placed: PlacedActor) -> None:
        add(self, placed)
        added[0].send_nowait(placed)

    monkeypatch.setattr(fleet.Fleet, "_add", add_and_tell)
    monkeypatch.setattr(fleet, "LOOK_S", 0.5)
    with ray_nodes(2, 2) as cluster:

        async def first_run(*, task_status: TaskStatus[Opened]) -> None:
            async with opened(cluster, tmp_path / "first", slots=3, run="a", outlives=True) as first:
                task_status.started(first)
                first.let_go()
                await ends.wait()
                await all_scored(first, 5)

        async with added[0], added[1], anyio.create_task_group() as group:
            first = await group.start(first_run)
            async with opened(cluster, tmp_path / "second", slots=4, run="a-b", outlives=True) as second:
                second.let_go()
                assert (first.evaluator.machines().slots, second.evaluator.machines().slots) == (3, 1)
                assert len(pids(first)) == 2 and not pids(first) & pids(second)
                async with anyio.create_task_group() as both:
                    both.start_soon(all_scored, first, 6)
                    both.start_soon(all_scored, second, 4)
                for _ in range(3):
                    await added[1].receive()
                ends.set()
                with anyio.fail_after(DEADLINE_S):
                    taken = await added[1].receive()
                assert taken.node.id not in {placed.node.id for placed in second.evaluator.fleet.living[:1]}
                assert second.evaluator.machines().slots == 1 + 2
                await all_scored(second, 6)
                assert (first.begins(), second.begins()) == (5 + 6, 4 + 6)
                assert not first.said and not second.said
