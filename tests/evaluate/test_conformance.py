"""What every evaluator promises (`evaluate.base.Evaluator`), proven of the real ones and of the simulated ones.

A new evaluator joins by a line in EVALUATORS: a function that opens it with one slot as an `Opened`.
"""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest

from pace_async.config import EvaluationConfig
from pace_async.errors import PaceBug
from pace_async.evaluate.assemble import OpensEvaluator, open_evaluator
from pace_async.evaluate.base import (
    CANCELLED,
    Evaluation,
    EvaluationId,
    EvaluationRequest,
    Evaluator,
    UnknownEvaluation,
    evaluate,
)
from pace_async.evaluate.on_ray.evaluator import open_ray_evaluator
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.search.draws import derive
from pace_async.simulate.cluster import EvaluatorOnNodes
from pace_async.simulate.durations import Durations
from pace_async.simulate.nodes import Nodes, NodesShape
from pace_async.simulate.stages import SimulatedEvaluator, World
from tests.doubles.evaluators import request
from tests.support.evaluate_tasks import make_task
from tests.support.ray_nodes import NEEDS_RAY, shared_node

DEADLINE_S = 60.0
LOST_LEASE = 7_000_000
"""Far from the leases that `request` gives."""


@dataclass
class Opened:
    """An evaluator with one slot. `scored` has a score. Each of `failing` fails by its own fault. Under `lost` the
    machine fails every time. `full` keeps the slot taken while it is open. `runs` counts the programs that were scored
    so far."""

    evaluator: Evaluator
    scored: str
    failing: tuple[str, ...]
    lost: EvaluationRequest
    full: Callable[[], AbstractAsyncContextManager[None]]
    runs: Callable[[], int]


Opens = Callable[[Path], AbstractAsyncContextManager[Opened]]


@asynccontextmanager
async def simulated(folder: Path) -> AsyncGenerator[Opened]:
    slots = anyio.CapacityLimiter(1)
    world = World(slots=slots)
    evaluator = SimulatedEvaluator(world, 0.0, 1.0, lost=frozenset({LOST_LEASE}))

    @asynccontextmanager
    async def full() -> AsyncGenerator[None]:
        taken = object()
        await slots.acquire_on_behalf_of(taken)
        yield
        slots.release_on_behalf_of(taken)

    programs = [f"x = {number}" for number in range(200)]
    fails = [program for program in programs if derive(0, program) % evaluator.fails_every == 0]
    holds = next(program for program in programs if program not in fails)
    lost = request(holds, lease=LOST_LEASE)
    yield Opened(evaluator, holds, tuple(fails[:3]), lost, full, lambda: world.calls.get("evaluate", 0))


@asynccontextmanager
async def on_nodes(folder: Path) -> AsyncGenerator[Opened]:
    """`full` is an attempt that never ends."""
    nodes = Nodes(NodesShape(1, 1), 0)
    world = World(durations=Durations(0, 0.001, 0.0, None, 0.0, 0.0, 0.0), nodes=nodes)
    evaluator = EvaluatorOnNodes(world, 0.0, 1.0, lost=frozenset({LOST_LEASE}))

    @asynccontextmanager
    async def full() -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(nodes.run, EvaluationId("other", 1), 1e6)
            await anyio.wait_all_tasks_blocked()
            yield
            tasks.cancel_scope.cancel()

    programs = [f"x = {number}" for number in range(200)]
    fails = [program for program in programs if derive(0, program) % evaluator.fails_every == 0]
    holds = next(program for program in programs if program not in fails)
    lost = request(holds, lease=LOST_LEASE)
    yield Opened(evaluator, holds, tuple(fails[:3]), lost, full, lambda: world.calls.get("evaluate", 0))


SCORER = """
import os, pathlib
def instances(seed):
    return [seed]
def score(instances, outputs):
    with open({runs!r}, "a") as file:
        file.write("x")
    if outputs[0] == "lost":
        os._exit(1)
    return {{"score": outputs[0]}}
"""


@asynccontextmanager
async def real(folder: Path, opens: OpensEvaluator, address: str | None = None) -> AsyncGenerator[Opened]:
    """`full` is a program that never ends. Its evaluation is cancelled by its identity."""
    runs = folder / "runs"
    runs.touch()
    task = make_task(folder / "task", SCORER.format(runs=str(runs)), deterministic=False)
    settings = EvaluationConfig(slots=1, retries=1, warm=False, ray_address=address)
    async with opens(task, settings, tier=await pick_tier(False), log=folder / "log") as evaluator:

        @asynccontextmanager
        async def full() -> AsyncGenerator[None]:
            endless = request("def f(instance):\n    while True: pass\n")
            await evaluator.submit(endless)
            await anyio.wait_all_tasks_blocked()
            yield
            await evaluator.cancel(endless.id)

        body = "def f(instance):\n    "
        failing = ("def f(:", f"{body}1 / 0", f"{body}raise SystemExit(0)", f"{body}return float('nan')")
        lost = request(f"{body}return 'lost'", lease=LOST_LEASE)
        yield Opened(evaluator, f"{body}return 7", failing, lost, full, lambda: len(runs.read_text()))


@asynccontextmanager
async def local(folder: Path) -> AsyncGenerator[Opened]:
    async with real(folder, open_evaluator) as opened:
        yield opened


@asynccontextmanager
async def on_ray(folder: Path) -> AsyncGenerator[Opened]:
    address = await anyio.to_thread.run_sync(shared_node)
    async with real(folder, open_ray_evaluator, address) as opened:
        yield opened


ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
EVALUATORS = [
    pytest.param(simulated, id="simulated"),
    pytest.param(on_nodes, id="nodes"),
    pytest.param(local, id="local", marks=ON_LINUX),
    pytest.param(on_ray, id="ray", marks=[NEEDS_RAY, pytest.mark.long]),
]
each_evaluator = pytest.mark.parametrize("opens", EVALUATORS)


@dataclass
class Waiter:
    """Tasks that wait for results of one evaluation."""

    evaluator: Evaluator
    results: list[Evaluation] = field(default_factory=list[Evaluation])

    async def wait(self, identity: EvaluationId) -> None:
        self.results.append(await self.evaluator.result(identity))


@each_evaluator
async def test_an_evaluation_submitted_twice_runs_once(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        asked = request(opened.scored)
        with anyio.fail_after(DEADLINE_S):
            await opened.evaluator.submit(asked)
            await opened.evaluator.submit(asked)
            first = await opened.evaluator.result(asked.id)
            await opened.evaluator.submit(asked)
            assert await opened.evaluator.result(asked.id) == first
        assert (first.outcome, opened.runs()) == ("ok", 1)


@each_evaluator
async def test_another_attempt_or_lease_is_another_evaluation(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        asked = request(opened.scored)
        again = replace(asked, id=replace(asked.id, attempt=2))
        with anyio.fail_after(DEADLINE_S):
            found = [await evaluate(opened.evaluator, one) for one in (asked, again, request(opened.scored))]
        assert len({evaluation.score for evaluation in found}) == 1
        assert opened.runs() == 3


@each_evaluator
async def test_an_identity_names_one_program(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        asked = request(opened.scored)
        await opened.evaluator.submit(asked)
        with pytest.raises(PaceBug, match="names two programs"):
            await opened.evaluator.submit(replace(asked, program=opened.failing[0]))


@each_evaluator
async def test_any_number_of_tasks_may_wait_for_an_evaluation(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        asked, waiter = request(opened.scored), Waiter(opened.evaluator)
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as submitters:
                submitters.start_soon(opened.evaluator.submit, asked)
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(waiter.wait, asked.id)
        assert [found.outcome for found in waiter.results] == ["ok"] * 3
        assert opened.runs() == 1


@each_evaluator
async def test_a_task_that_stops_waiting_ends_no_evaluation(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        asked, waiter = request(opened.scored), Waiter(opened.evaluator)
        with anyio.fail_after(DEADLINE_S):
            async with opened.full():
                await opened.evaluator.submit(asked)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(waiter.wait, asked.id)
                    await anyio.wait_all_tasks_blocked()
                    tasks.cancel_scope.cancel()
                assert asked.id in opened.evaluator.pending()
            found = await opened.evaluator.result(asked.id)
        assert (found.outcome, waiter.results, opened.runs()) == ("ok", [], 1)


@each_evaluator
async def test_an_evaluation_is_cancelled_by_its_identity_and_forgotten(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        asked, waiter = request(opened.scored), Waiter(opened.evaluator)
        with anyio.fail_after(DEADLINE_S):
            async with opened.full():
                await opened.evaluator.submit(asked)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(waiter.wait, asked.id)
                    await anyio.wait_all_tasks_blocked()
                    await opened.evaluator.cancel(asked.id)
            assert waiter.results == [CANCELLED]
            assert not opened.evaluator.pending()
            with pytest.raises(UnknownEvaluation):
                await opened.evaluator.result(asked.id)
        assert opened.runs() == 0


@each_evaluator
async def test_what_was_cut_off_is_not_an_attempt_and_runs_again_under_its_identity(
    opens: Opens, tmp_path: Path
) -> None:
    async with opens(tmp_path) as opened:
        asked = request(opened.scored, attempt=3)
        with anyio.fail_after(DEADLINE_S):
            async with opened.full():
                await opened.evaluator.submit(asked)
                await opened.evaluator.cancel(asked.id)
            found = await evaluate(opened.evaluator, asked)
        assert (found.outcome, [attempt.attempt for attempt in found.attempts]) == ("ok", [3])
        assert opened.runs() == 1


@each_evaluator
@pytest.mark.parametrize("other", ["seeds", "limits"])
async def test_an_identity_names_one_request(other: str, opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        asked = request(opened.scored)
        longer = replace(asked.limits, seconds=asked.limits.seconds + 1)
        changed = replace(asked, seed=asked.seed + 1) if other == "seeds" else replace(asked, limits=longer)
        await opened.evaluator.submit(asked)
        with pytest.raises(PaceBug, match=f"names two {other}"):
            await opened.evaluator.submit(changed)


@each_evaluator
async def test_cancelling_an_unknown_or_ended_evaluation_does_nothing(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        asked = request(opened.scored)
        with anyio.fail_after(DEADLINE_S):
            await opened.evaluator.cancel(asked.id)
            assert (await evaluate(opened.evaluator, asked)).outcome == "ok"
            await opened.evaluator.cancel(asked.id)
            with pytest.raises(UnknownEvaluation):
                await opened.evaluator.result(asked.id)


@each_evaluator
async def test_a_caller_that_is_cancelled_leaves_no_evaluation_behind(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        asked = request(opened.scored)
        with anyio.fail_after(DEADLINE_S):
            async with opened.full():
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(evaluate, opened.evaluator, asked)
                    await anyio.wait_all_tasks_blocked()
                    tasks.cancel_scope.cancel()
                assert asked.id not in opened.evaluator.pending()


@each_evaluator
async def test_pending_names_the_evaluations_that_have_not_ended(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        asked = [request(opened.scored) for _ in range(3)]
        with anyio.fail_after(DEADLINE_S):
            async with opened.full():
                for one in asked:
                    await opened.evaluator.submit(one)
                assert {one.id for one in asked} <= set(opened.evaluator.pending())
            for one in asked:
                await opened.evaluator.result(one.id)
        assert not opened.evaluator.pending()


@each_evaluator
async def test_an_identity_that_is_not_known_is_one_error_that_names_it(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        identity = EvaluationId("test", LOST_LEASE, "few", 3)
        with pytest.raises(UnknownEvaluation) as caught:
            await opened.evaluator.result(identity)
        assert isinstance(caught.value, KeyError)
        assert str(caught.value) == (
            f"No evaluation is known by run test, lease {LOST_LEASE}, stage few, attempt 3: "
            "it was not submitted, was cancelled, or ended long ago."
        )


@each_evaluator
async def test_no_failure_of_a_candidate_raises_or_has_a_score(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        assert len(opened.failing) > 2
        for program in opened.failing:
            with anyio.fail_after(DEADLINE_S):
                found = await evaluate(opened.evaluator, request(program))
            assert found.score is None
            assert found.outcome not in ("ok", "infrastructure_error")
            assert found.detail.isprintable() and found.detail
            assert found.attempts[-1].accepted


@each_evaluator
async def test_a_failure_of_the_machine_is_no_score_and_each_is_an_attempt(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        with anyio.fail_after(DEADLINE_S):
            found = await evaluate(opened.evaluator, opened.lost)
        assert (found.outcome, found.score) == ("infrastructure_error", None)
        assert len(found.attempts) == opened.runs() > 0
        assert {attempt.outcome for attempt in found.attempts} == {"infrastructure_error"}
        assert not any(attempt.accepted for attempt in found.attempts)


@each_evaluator
async def test_attempts_are_numbered_on_from_that_of_the_request(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        lost = replace(opened.lost, id=replace(opened.lost.id, attempt=4))
        for asked in (request(opened.scored), request(opened.scored, attempt=3), lost):
            with anyio.fail_after(DEADLINE_S):
                found = await evaluate(opened.evaluator, asked)
            numbers = [attempt.attempt for attempt in found.attempts]
            assert numbers == list(range(asked.id.attempt, asked.id.attempt + len(numbers)))
            series = {(attempt.lease, attempt.stage, attempt.fresh) for attempt in found.attempts}
            assert series == {asked.id.series}
            assert [attempt.outcome for attempt in found.attempts][-1] == found.outcome


@each_evaluator
async def test_the_wait_for_a_slot_is_that_of_the_attempts_and_never_negative(opens: Opens, tmp_path: Path) -> None:
    async with opens(tmp_path) as opened:
        asked = [request(opened.scored) for _ in range(4)]
        waiter = Waiter(opened.evaluator)
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                for one in asked:
                    await opened.evaluator.submit(one)
                    tasks.start_soon(waiter.wait, one.id)
        for found in waiter.results:
            waits = [attempt.queue_seconds for attempt in found.attempts]
            assert found.queue_seconds == sum(waits)
            assert min(waits) >= 0
            assert all(attempt.started_at <= attempt.ended_at for attempt in found.attempts)
