"""A node that lies, by the protocol of real ones: it can invent the score of what it was given, and nothing else."""

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pace_async.config import EvaluationConfig
from pace_async.evaluate.base import Evaluation, EvaluationRequest, Needs, evaluate
from pace_async.evaluate.on_ray.attaching import MARK, MOST_LATER, name_of
from pace_async.evaluate.on_ray.cluster import NodeSeen
from pace_async.evaluate.on_ray.evaluator import RayEvaluator
from pace_async.evaluate.on_ray.fleet import Fleet
from pace_async.evaluate.on_ray.placed import SlotDemand
from pace_async.evaluate.on_ray.wire import Known, Order, fingerprint
from tests.doubles.evaluators import request
from tests.doubles.ray_clusters import ClusterOfTests, NodeOfTests, answered
from tests.support.evaluate_tasks import make_task

OK = Evaluation("ok", 7.0, 0.1)
LIAR, HONEST = "a" * 2 * MARK, "b" * 2 * MARK
Answer = Callable[[EvaluationRequest], object]


def of_another_lease(asked: EvaluationRequest) -> object:
    return answered(replace(asked, id=replace(asked.id, lease=asked.id.lease + 1)), OK)


def of_another_stage(asked: EvaluationRequest) -> object:
    return answered(replace(asked, id=replace(asked.id, stage="cheap")), OK)


def of_another_attempt(asked: EvaluationRequest) -> object:
    return answered(replace(asked, id=replace(asked.id, attempt=asked.id.attempt + 1)), OK)


def of_a_fresh_seed(asked: EvaluationRequest) -> object:
    return answered(replace(asked, id=replace(asked.id, fresh=3)), OK)


def two_results(asked: EvaluationRequest) -> object:
    (one,) = answered(asked, OK).attempts
    return OK.with_attempts((one, replace(one, attempt=one.attempt + 1)))


def the_same_attempt_twice(asked: EvaluationRequest) -> object:
    (one,) = answered(asked, OK).attempts
    return OK.with_attempts((replace(one, accepted=False), one))


def a_reward_from_a_failure(asked: EvaluationRequest) -> object:
    (one,) = answered(asked, OK).attempts
    return replace(OK, outcome="infrastructure_error", attempts=(one,))


def no_score(asked: EvaluationRequest) -> object:
    return answered(asked, replace(OK, score=None))


def no_number(asked: EvaluationRequest) -> object:
    return answered(asked, replace(OK, score=math.nan))


def a_score_of_a_failure(asked: EvaluationRequest) -> object:
    return answered(asked, replace(OK, outcome="timeout"))


def no_time(asked: EvaluationRequest) -> object:
    return answered(asked, replace(OK, seconds=-1.0))


def no_evaluation(asked: EvaluationRequest) -> object:
    return {"score": 7.0, "lease": asked.id.lease}


class Liar(NodeOfTests):
    def __init__(self, name: str, lie: Answer) -> None:
        super().__init__(name)
        self._lie = lie

    def answer(self, request: EvaluationRequest) -> object:
        return self._lie(request)


def honest(name: str, node: str) -> NodeOfTests:
    made = NodeOfTests(name)
    made.go.set()
    return made


@asynccontextmanager
async def on_nodes(
    cluster: ClusterOfTests, folder: Path, slots: int, said: list[tuple[str, str]]
) -> AsyncGenerator[RayEvaluator]:
    async def say(kind: str, detail: str) -> None:
        said.append((kind, detail))

    order = Order.of(make_task(folder / "task"), EvaluationConfig(warm=False), None, {})
    wanted = SlotDemand("run", slots, Needs(), 60.0, 60.0, say, outlives=True)
    with anyio.fail_after(60.0):
        async with Fleet(cluster, order, None, wanted) as fleet, RayEvaluator(fleet, 2) as evaluator:
            yield evaluator


@pytest.mark.fault("Machines", "an answer that does not fit what was asked")
@pytest.mark.fault("Machines", "the same result twice", only="two_results")
@pytest.mark.fault("Machines", "the same result twice", only="the_same_attempt_twice")
@pytest.mark.parametrize(
    "lie",
    [
        of_another_lease,
        of_another_stage,
        of_another_attempt,
        of_a_fresh_seed,
        two_results,
        the_same_attempt_twice,
        a_reward_from_a_failure,
        no_score,
        no_number,
        a_score_of_a_failure,
        no_time,
        no_evaluation,
    ],
)
async def test_a_wrong_answer_is_a_lost_attempt_and_its_node_is_refused_by_name(lie: Answer, tmp_path: Path) -> None:
    liars: list[NodeOfTests] = []

    def made(name: str, node: str) -> NodeOfTests:
        if node == HONEST:
            return honest(name, node)
        liars.append(liar := Liar(name, lie))
        liar.go.set()
        return liar

    said: list[tuple[str, str]] = []
    async with on_nodes(ClusterOfTests({LIAR: 1.0, HONEST: 1.0}, made), tmp_path, 2, said) as evaluator:
        asked, found = [request("one"), request("another")], dict[int, Evaluation]()

        async def ask(one: EvaluationRequest) -> None:
            found[one.lease] = await evaluate(evaluator, one)

        async with anyio.create_task_group() as group:
            for one in asked:
                group.start_soon(ask, one)
        (liar,) = liars
        assert liar.killed and len(liar.asked) == 1
        for one in asked:
            lost = [(1, "infrastructure_error", False)] if one.id in liar.asked else []
            attempts = found[one.lease].attempts
            assert {attempt.lease for attempt in attempts} == {one.lease}
            assert [(at.attempt, at.outcome, at.accepted) for at in attempts] == [*lost, (len(lost) + 1, "ok", True)]
            assert found[one.lease].score == 7
        assert [placed.node.id for placed in evaluator.fleet.living] == [HONEST]
    assert [kind for kind, _ in said] == ["node_refused"]
    assert said[0][1].startswith(f"node host-{LIAR} is refused: it")


async def test_the_slots_of_an_actor_are_those_for_which_it_reserves_whatever_it_says(tmp_path: Path) -> None:
    """Those of one that a resume finds stand in the name that the runtime gave it."""
    node, said = NodeSeen(LIAR, "host", {}), list[tuple[str, str]]()
    found = NodeOfTests(name_of("run", node, 2))
    cluster = ClusterOfTests({LIAR: 0.0}, honest, (found,))
    async with on_nodes(cluster, tmp_path, 9, said) as evaluator:
        assert not cluster.started
        assert evaluator.machines().slots == 2
        asked = [request("one") for _ in range(5)]
        for one in asked:
            await evaluator.submit(one)
        await anyio.wait_all_tasks_blocked()
        assert found.inside == 2
        found.go.set()
        for one in asked:
            assert (await evaluator.result(one.id)).score == 7
        assert found.most == 2


@pytest.mark.parametrize(
    "name", ["run-", "run-foo", f"run-b-{LIAR[:MARK]}-2.{'a' * 8}", f"run-{LIAR[:MARK]}--3.{'a' * 8}"]
)
async def test_an_actor_of_another_run_or_of_nobody_is_neither_used_nor_ended(name: str, tmp_path: Path) -> None:
    stranger = NodeOfTests(name)
    async with on_nodes(ClusterOfTests({LIAR: 2.0}, honest, (stranger,)), tmp_path, 2, []) as evaluator:
        assert not stranger.killed and evaluator.machines().slots == 2
        assert (await evaluate(evaluator, request("one"))).score == 7


async def test_an_actor_that_an_earlier_pace_named_is_ended(tmp_path: Path) -> None:
    earlier = NodeOfTests(f"run-{LIAR[:MARK]}-{'a' * 8}")
    async with on_nodes(ClusterOfTests({LIAR: 2.0}, honest, (earlier,)), tmp_path, 2, []) as evaluator:
        assert earlier.killed and evaluator.machines().slots == 2


async def test_a_node_that_answers_something_else_than_that_it_is_ready_is_refused(tmp_path: Path) -> None:
    class Unready(NodeOfTests):
        async def _open(self, order: Order, files: object) -> object:
            return "ready"

    def made(name: str, node: str) -> NodeOfTests:
        return Unready(name) if node == LIAR else honest(name, node)

    said: list[tuple[str, str]] = []
    async with on_nodes(ClusterOfTests({LIAR: 1.0, HONEST: 1.0}, made), tmp_path, 2, said) as evaluator:
        assert (await evaluate(evaluator, request("one"))).score == 7
    assert said == [("node_refused", f"node host-{LIAR} is refused: it answered with str where it begins to evaluate")]


async def test_a_later_attempt_than_can_be_is_not_taken_over(tmp_path: Path) -> None:
    """Every attempt between would be recorded as lost."""
    asked = request("one")
    late = Known(replace(asked.id, attempt=asked.id.attempt + MOST_LATER + 1), fingerprint(asked), ended=True)
    found = NodeOfTests(name_of("run", NodeSeen(LIAR, "host", {}), 1), (late,))
    found.go.set()
    async with on_nodes(ClusterOfTests({LIAR: 0.0}, honest, (found,)), tmp_path, 1, []) as evaluator:
        assert [at.attempt for at in (await evaluate(evaluator, asked)).attempts] == [1]
        assert found.asked == [asked.id]
