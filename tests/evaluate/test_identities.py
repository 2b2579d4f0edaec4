"""Evaluations by their identity under callers that are cancelled, come late, or come twice."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskGroup

from pace_async.errors import PaceBug, UsageError
from pace_async.evaluate.base import CANCELLED, Evaluation, EvaluationId, EvaluationRequest, UnknownEvaluation
from pace_async.evaluate.identities import Identities
from tests.doubles.evaluators import request

DEADLINE_S = 60.0


class Slow:
    """Work that runs until `go` is set, and whose end after a cancellation takes until `ended` is set."""

    def __init__(self) -> None:
        self.running, self.most, self.began = 0, 0, 0
        self.go, self.ended = anyio.Event(), anyio.Event()

    async def work(self, request: EvaluationRequest) -> Evaluation:
        self.began += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.go.wait()
        finally:
            with anyio.move_on_after(DEADLINE_S, shield=True):
                if not self.go.is_set():
                    await self.ended.wait()
            self.running -= 1
        return Evaluation("ok", 1.0, 0.5)


def opened(
    work: Callable[[EvaluationRequest], Awaitable[Evaluation]], tasks: TaskGroup, background: bool
) -> Identities:
    """Identities that run `work` in `tasks`, or in the task that waits."""

    def start(run: Callable[[], Awaitable[None]]) -> None:
        async def ran() -> None:
            await run()

        tasks.start_soon(ran)

    return Identities(work, start if background else None)


IN_BACKGROUND = pytest.mark.parametrize("background", [True, False], ids=["background", "in the waiting task"])


@IN_BACKGROUND
async def test_a_cancellation_returns_although_the_task_that_waited_is_cancelled_too(background: bool) -> None:
    slow, asked = Slow(), request("x = 1")
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as work, anyio.create_task_group() as tasks:
            identities = opened(slow.work, work, background)
            identities.submit(asked)
            waits = anyio.CancelScope()

            async def wait() -> None:
                with waits:
                    await identities.result(asked.id)

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            waits.cancel()
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(identities.cancel, asked.id)
            await anyio.wait_all_tasks_blocked()
            slow.ended.set()
            await anyio.wait_all_tasks_blocked()
            assert list(identities.pending()) == []
    assert slow.running == 0


@IN_BACKGROUND
async def test_every_cancellation_returns_when_nothing_of_the_evaluation_runs(background: bool) -> None:
    slow, asked, left = Slow(), request("x = 1"), list[int]()
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as work, anyio.create_task_group() as tasks:
            identities = opened(slow.work, work, background)
            identities.submit(asked)

            async def cancel() -> None:
                await identities.cancel(asked.id)
                left.append(slow.running)

            tasks.start_soon(identities.result, asked.id)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(cancel)
            tasks.start_soon(cancel)
            await anyio.wait_all_tasks_blocked()
            assert list(identities.pending()) == [asked.id], "it still runs"
            slow.ended.set()
            await anyio.wait_all_tasks_blocked()
            assert list(identities.pending()) == []
    assert left == [0, 0]


@IN_BACKGROUND
async def test_an_identity_runs_once_at_a_time_although_it_is_submitted_while_it_is_cancelled(background: bool) -> None:
    slow, asked, found = Slow(), request("x = 1"), list[Evaluation]()
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as work, anyio.create_task_group() as tasks:
            identities = opened(slow.work, work, background)
            identities.submit(asked)

            async def wait() -> None:
                found.append(await identities.result(asked.id))

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(identities.cancel, asked.id)
            await anyio.wait_all_tasks_blocked()
            identities.submit(asked)
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            slow.ended.set()
    assert slow.most == 1
    assert found == [CANCELLED, CANCELLED]


@IN_BACKGROUND
async def test_an_error_is_raised_for_a_task_that_asks_late_and_the_same_request_may_try_again(
    background: bool,
) -> None:
    runs, asked = list[EvaluationId](), request("x = 1")

    async def work(request: EvaluationRequest) -> Evaluation:
        runs.append(request.id)
        await anyio.lowlevel.checkpoint()
        if len(runs) == 1:
            raise UsageError("the evaluator cannot be used")
        return Evaluation("ok", 1.0, 0.5)

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            identities = opened(work, tasks, background)
            identities.submit(asked)
            await anyio.wait_all_tasks_blocked()
            for _ in range(2):
                with pytest.raises(UsageError, match="cannot be used"):
                    await identities.result(asked.id)
            assert list(identities.pending()) == []
            identities.submit(asked)
            assert (await identities.result(asked.id)).outcome == "ok"
    assert runs == [asked.id] * 2


@IN_BACKGROUND
@pytest.mark.parametrize("other", ["seeds", "limits", "needs"])
async def test_an_identity_names_one_request(background: bool, other: str) -> None:
    slow, asked = Slow(), request("x = 1")
    changed = {
        "seeds": replace(asked, seed=asked.seed + 1),
        "limits": replace(asked, limits=replace(asked.limits, seconds=1.0)),
        "needs": replace(asked, needs=replace(asked.needs, cpus=2.0)),
    }
    slow.go.set()
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            identities = opened(slow.work, tasks, background)
            identities.submit(asked)
            with pytest.raises(PaceBug, match=f"names two {other}"):
                identities.submit(changed[other])
            await identities.result(asked.id)
            with pytest.raises(PaceBug, match=f"names two {other}"):
                identities.submit(changed[other])
    assert slow.began == 1


@IN_BACKGROUND
async def test_a_cancellation_that_is_cut_short_still_forgets_the_evaluation(background: bool) -> None:
    slow, asked, cut = Slow(), request("x = 1"), anyio.CancelScope()
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as work, anyio.create_task_group() as tasks:
            identities = opened(slow.work, work, background)
            identities.submit(asked)

            async def cancel() -> None:
                with cut:
                    await identities.cancel(asked.id)

            tasks.start_soon(identities.result, asked.id)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(cancel)
            await anyio.wait_all_tasks_blocked()
            cut.cancel()
            await anyio.wait_all_tasks_blocked()
            slow.ended.set()
            await anyio.wait_all_tasks_blocked()
            slow.go.set()
            identities.submit(asked)
            assert (await identities.result(asked.id)).outcome == "ok"
    assert slow.began == 2


async def test_what_could_not_begin_is_not_known() -> None:
    slow, asked = Slow(), request("x = 1")

    def start(_: object) -> None:
        raise RuntimeError("the evaluator is closed")

    identities = Identities(slow.work, start)
    with pytest.raises(RuntimeError, match="is closed"):
        identities.submit(asked)
    assert list(identities.pending()) == []
    with pytest.raises(UnknownEvaluation), anyio.fail_after(DEADLINE_S):
        await identities.result(asked.id)
