"""Nodes that are no match for the machine of the runtime are refused by name, by their own evaluators.

The evaluator of a node runs in this process, as the actor of a cluster of the tests. Needs no Ray.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from pace_async.config import EvaluationConfig
from pace_async.errors import UsageError
from pace_async.evaluate.base import Needs, evaluate
from pace_async.evaluate.on_ray import fleet
from pace_async.evaluate.on_ray.attaching import MARK
from pace_async.evaluate.on_ray.evaluator import RayEvaluator
from pace_async.evaluate.on_ray.fleet import Fleet
from pace_async.evaluate.on_ray.node import NodeEvaluator
from pace_async.evaluate.on_ray.placed import SlotDemand
from pace_async.evaluate.on_ray.wire import Order, Sandbox, files_by_value, machine_here, pace_here
from pace_async.evaluate.sandbox.tiers import Rlimits, Tier
from pace_async.task import Task
from tests.doubles.evaluators import request
from tests.doubles.ray_clusters import ClusterOfTests, NodeOfTests
from tests.support.evaluate_tasks import make_task

DEADLINE_S = 120.0
UNFIT, FIT = "a" * 24, "b" * 24
OTHER_MACHINE = "x86_64 a faster processor"
TIMED = """
def instances(seed):
    return [seed]
def score(instances, outputs, seconds):
    return {"score": seconds[0]}
"""


@pytest.fixture(autouse=True)
def sandbox_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node without bubblewrap, on which the next tier has stopped every attack."""

    async def picked(unsafe: bool) -> Tier:
        return Rlimits()

    monkeypatch.setattr("pace_async.evaluate.on_ray.node.pick_tier", picked)


class EvaluatorOfThisProcess(NodeEvaluator):
    def end(self) -> None:
        """End its event loop, before it ends this process."""
        self._portal.call(self._portal.stop, True)
        self._stack.close()


class RealNode(NodeOfTests):
    """Begins as an actor does."""

    def __init__(self, name: str, evaluator: NodeEvaluator) -> None:
        super().__init__(name)
        self._evaluator = evaluator

    async def _open(self, order: Order, files: Any) -> object:
        return await self._evaluator.open(order, files)

    async def _close(self) -> None:
        await self._evaluator.close()


@asynccontextmanager
async def on_nodes(
    task: Task, order: Order, said: list[tuple[str, str]], *, alone: bool = False
) -> AsyncGenerator[list[str]]:
    """The nodes that evaluate, of a real one and of another, which always does."""
    evaluator = EvaluatorOfThisProcess()

    def made(name: str, node: str) -> NodeOfTests:
        return RealNode(name, evaluator) if node == UNFIT else NodeOfTests(name)

    async def say(kind: str, detail: str) -> None:
        said.append((kind, detail))

    cluster = ClusterOfTests({UNFIT: 1.0} if alone else {UNFIT: 1.0, FIT: 1.0}, made)
    wanted = SlotDemand("run", 2, Needs(), DEADLINE_S, DEADLINE_S, say)
    try:
        with anyio.fail_after(DEADLINE_S):
            async with Fleet(cluster, order, files_by_value(task), wanted) as nodes:
                yield sorted(placed.node.id for placed in nodes.living)
    finally:
        await anyio.to_thread.run_sync(evaluator.end)


def ordered(task: Task, sandbox: Sandbox) -> Order:
    return replace(Order.of(task, EvaluationConfig(warm=False), None, {}), sandbox=sandbox)


@pytest.mark.fault("Machines", "a node with a weaker sandbox")
async def test_a_node_whose_sandbox_is_weaker_than_the_runs_is_refused_by_name(tmp_path: Path) -> None:
    task, said = make_task(tmp_path / "task"), list[tuple[str, str]]()
    why = f"node host-{UNFIT} is refused: its sandbox is rlimits, and this run's is bubblewrap"
    async with on_nodes(task, ordered(task, Sandbox("bubblewrap", ())), said) as living:
        assert living == [FIT]
    assert said == [("node_refused", why)]
    with pytest.raises(UsageError, match=f"^No node of the Ray cluster can evaluate: {why}\\.$"):
        async with on_nodes(task, ordered(task, Sandbox("bubblewrap", ())), said, alone=True):
            pass


@pytest.mark.parametrize("gaps", [(), ("network",)])
async def test_a_node_whose_sandbox_is_as_strong_as_the_runs_or_stronger_evaluates(
    gaps: tuple[str, ...], tmp_path: Path
) -> None:
    task, said = make_task(tmp_path / "task"), list[tuple[str, str]]()
    async with on_nodes(task, ordered(task, Sandbox("rlimits", gaps)), said) as living:
        assert living == [UNFIT, FIT]
    assert not said


@pytest.mark.fault("Machines", "a node of another class of machine, where scores are times")
@pytest.mark.parametrize("timed", [True, False])
async def test_a_node_of_another_class_of_machine_is_refused_by_name_if_scores_are_times_and_only_then(
    timed: bool, tmp_path: Path
) -> None:
    plain = TIMED.replace(", seconds)", ")").replace("seconds[0]", "1.0")
    task = make_task(tmp_path / "task", TIMED if timed else plain, deterministic=False)
    order, said = ordered(task, Sandbox("rlimits", ())), list[tuple[str, str]]()
    async with on_nodes(task, replace(order, machine=OTHER_MACHINE), said) as living:
        assert living == ([FIT] if timed else [UNFIT, FIT])
    refusal = (
        f"node host-{UNFIT} is refused: its scores are times, and it is another class of machine ({machine_here()}) "
        f"than the runtime's ({OTHER_MACHINE})"
    )
    assert said == ([("node_refused", refusal)] if timed else [])


async def test_a_node_of_the_runtimes_class_of_machine_evaluates_scores_that_are_times(tmp_path: Path) -> None:
    task, said = make_task(tmp_path / "task", TIMED, deterministic=False), list[tuple[str, str]]()
    async with on_nodes(task, ordered(task, Sandbox("rlimits", ())), said) as living:
        assert living == [UNFIT, FIT]
    assert not said


@pytest.mark.fault("Machines", "a node that is unfit when its next evaluator begins")
async def test_a_node_that_is_unfit_once_its_actor_has_to_be_replaced_is_refused_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if another pace-async was installed there meanwhile."""

    class OtherPace(NodeOfTests):
        async def _pace(self) -> str:
            return "0.0.1"

    actors, said, refused = list[NodeOfTests](), list[tuple[str, str]](), anyio.Event()

    def made(name: str, node: str) -> NodeOfTests:
        again = any(actor.name.startswith(f"run-{UNFIT[:MARK]}") for actor in actors)
        actors.append(OtherPace(name) if again and node == UNFIT else NodeOfTests(name))
        actors[-1].go.set()
        return actors[-1]

    async def say(kind: str, detail: str) -> None:
        said.append((kind, detail))
        if kind == "node_refused":
            refused.set()

    monkeypatch.setattr(fleet, "RESTART_S", 0.0)
    order = Order.of(make_task(tmp_path / "task"), EvaluationConfig(warm=False), None, {})
    wanted = SlotDemand("run", 2, Needs(), DEADLINE_S, DEADLINE_S, say)
    cluster = ClusterOfTests({UNFIT: 1.0, FIT: 1.0}, made)
    with anyio.fail_after(DEADLINE_S):
        async with Fleet(cluster, order, None, wanted) as nodes, RayEvaluator(nodes, 1) as evaluator:
            next(actor for actor in actors if actor.name.startswith(f"run-{UNFIT[:MARK]}")).kill()
            await refused.wait()
            assert (await evaluate(evaluator, request("one"))).score == 7
            assert [placed.node.id for placed in nodes.living] == [FIT]
    why = f"node host-{UNFIT} is refused: it has pace-async 0.0.1, and this run {pace_here()}"
    assert [kind for kind, _ in said] == ["actor_lost", "node_refused"]
    assert said[1][1] == why
