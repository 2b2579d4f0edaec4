"""What an actor reserves of its node in Ray: processors, cards, and names of the user's own."""

from collections.abc import Generator, Mapping
from pathlib import Path

import anyio
import pytest

from pace_async.config import EvaluationConfig
from pace_async.errors import UsageError
from pace_async.evaluate.base import Needs
from pace_async.evaluate.on_ray.cluster import Cluster, connected
from pace_async.evaluate.on_ray.fleet import Fleet
from pace_async.evaluate.on_ray.placed import SlotDemand
from pace_async.evaluate.on_ray.wire import Order, files_by_value
from tests.support.evaluate_tasks import make_task
from tests.support.ray_held import DEADLINE_S
from tests.support.ray_nodes import NEEDS_RAY, RayNodes, ray_nodes

pytestmark = [NEEDS_RAY, pytest.mark.long, pytest.mark.timeout(300)]
OWN = {"num_gpus": 1, "resources": {"licence": 1}}


@pytest.fixture
def cluster() -> Generator[RayNodes]:
    """A cluster of its own: what an actor of another test waits for would be taken from the node that is added."""
    with ray_nodes(1) as own:
        yield own


async def free_there(cluster: Cluster, node: str, expected: Mapping[str, float]) -> None:
    """Wait until Ray says that so much is unreserved on the node. Its figures come late."""
    with anyio.fail_after(DEADLINE_S):
        while True:
            (seen,) = [one for one in await cluster.nodes() if one.id == node]
            if {name: seen.free.get(name, 0.0) for name in expected} == expected:
                return
            await anyio.sleep(0.1)


@pytest.mark.nightly
async def test_an_actor_reserves_a_card_and_a_name_of_the_users_own_until_it_ends(
    cluster: RayNodes, tmp_path: Path
) -> None:
    task = make_task(tmp_path / "task")
    order = Order.of(task, EvaluationConfig(warm=False), None, {})
    node = await anyio.to_thread.run_sync(lambda: cluster.add(2, more=OWN))
    try:
        async with connected(cluster.address, DEADLINE_S, {}) as connection:
            files = await connection.put(files_by_value(task))
            wanted = SlotDemand("reserves", 2, Needs(gpus=1.0), DEADLINE_S, DEADLINE_S, more={"licence": 1.0})
            await free_there(connection, node, {"CPU": 2.0, "GPU": 1.0, "licence": 1.0})
            async with Fleet(connection, order, files, wanted) as fleet:
                assert [(placed.node.id, placed.slots) for placed in fleet.living] == [(node, 1)]
                await free_there(connection, node, {"CPU": 1.0, "GPU": 0.0, "licence": 0.0})
                second = Fleet(connection, order, files, wanted)
                with pytest.raises(UsageError, match=r"no room: an evaluation reserves 1 CPU and 1 GPU and 1 licence"):
                    await second.__aenter__()
            await free_there(connection, node, {"CPU": 2.0, "GPU": 1.0, "licence": 1.0})
    finally:
        await anyio.to_thread.run_sync(cluster.kill, node)


@pytest.mark.nightly
async def test_slots_with_shares_of_two_cards_have_one_actor_which_reserves_both(
    cluster: RayNodes, tmp_path: Path
) -> None:
    task = make_task(tmp_path / "task")
    order = Order.of(task, EvaluationConfig(warm=False), None, {})
    node = await anyio.to_thread.run_sync(lambda: cluster.add(3, more={"num_gpus": 2}))
    try:
        async with connected(cluster.address, DEADLINE_S, {}) as connection:
            files = await connection.put(files_by_value(task))
            wanted = SlotDemand("shares", 3, Needs(gpus=0.5), DEADLINE_S, DEADLINE_S)
            await free_there(connection, node, {"CPU": 3.0, "GPU": 2.0})
            async with Fleet(connection, order, files, wanted) as fleet:
                assert [(placed.node.id, placed.slots) for placed in fleet.living] == [(node, 3)]
                await free_there(connection, node, {"CPU": 0.0, "GPU": 0.0})
    finally:
        await anyio.to_thread.run_sync(cluster.kill, node)
