"""Work that has begun goes to its end, also if the tasks that wait for it are cancelled."""

import asyncio
import gc

import anyio
import pytest

from pace_async.population.writing.uncut import Uncut


async def test_the_work_of_a_cancelled_caller_completes() -> None:
    uncut, begun, may_end, ended = Uncut(), anyio.Event(), anyio.Event(), anyio.Event()

    async def work() -> None:
        begun.set()
        await may_end.wait()
        ended.set()

    caller = asyncio.ensure_future(uncut.run(work()))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not ended.is_set()
    may_end.set()
    with anyio.fail_after(10):
        await uncut.settle()
    assert ended.is_set()


async def test_a_caller_that_waits_gets_the_result_or_the_error() -> None:
    uncut = Uncut()

    async def double(number: int) -> int:
        return 2 * number

    async def fail() -> None:
        raise KeyError("lost")

    assert await uncut.run(double(21)) == 42
    with pytest.raises(KeyError):
        await uncut.run(fail())
    await uncut.settle()


async def test_an_error_without_a_waiting_caller_is_not_reported_as_unretrieved() -> None:
    uncut, begun, may_fail = Uncut(), anyio.Event(), anyio.Event()
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))

    async def fail() -> None:
        begun.set()
        await may_fail.wait()
        raise KeyError("lost")

    caller = asyncio.ensure_future(uncut.run(fail()))
    await begun.wait()
    caller.cancel()
    await asyncio.wait([caller])
    may_fail.set()
    await uncut.settle()
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []
