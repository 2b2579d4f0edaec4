"""A task that asked to run alone does, no task is overtaken, and none waits for ever."""

from contextlib import AbstractAsyncContextManager

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.evaluate.local import Turns


async def spans(ways: list[bool], leave: list[int]) -> list[tuple[bool, int, int]]:
    """(alone, began, ended) of each, in the order of requests. `leave` is the number of turns of the loop that each
    stays."""
    turns, clock, found = Turns(), iter(range(10**6)), dict[int, tuple[bool, int, int]]()

    async def one(number: int, alone: bool) -> None:
        way: AbstractAsyncContextManager[None] = turns.alone() if alone else turns.together()
        async with way:
            began = next(clock)
            for _ in range(leave[number % len(leave)]):
                await anyio.lowlevel.checkpoint()
            found[number] = (alone, began, next(clock))

    async with anyio.create_task_group() as tg:
        for number, alone in enumerate(ways):
            tg.start_soon(one, number, alone)
    return [found[number] for number in range(len(ways))]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.booleans(), min_size=1, max_size=12), st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_a_task_that_runs_alone_is_alone_and_all_are_admitted_in_order(ways: list[bool], leave: list[int]) -> None:
    found = anyio.run(spans, ways, leave)
    for number, (alone, began, ended) in enumerate(found):
        others = [span for other, span in enumerate(found) if other != number]
        if alone:
            assert not any(began < end and start < ended for _, start, end in others)
        assert all(start < began for _, start, _ in found[:number] if alone), "nobody is overtaken"


async def test_a_task_that_stops_waiting_blocks_no_other() -> None:
    turns = Turns()
    entered = anyio.Event()
    async with turns.together(), anyio.create_task_group() as tg:
        with anyio.CancelScope() as scope:

            async def later() -> None:
                async with turns.together():
                    entered.set()

            tg.start_soon(later)
            tg.start_soon(_cancel, scope)
            async with turns.alone():
                raise AssertionError("somebody was inside")
        await entered.wait()
    async with turns.alone():
        pass


async def _cancel(scope: anyio.CancelScope) -> None:
    await anyio.wait_all_tasks_blocked()
    scope.cancel()


async def test_a_task_that_waits_to_run_alone_goes_before_later_ones() -> None:
    turns, order = Turns(), list[str]()
    first_may_leave = anyio.Event()

    async def enter(name: str, way: AbstractAsyncContextManager[None]) -> None:
        async with way:
            order.append(name)
            if name == "first":
                await first_may_leave.wait()

    async with anyio.create_task_group() as tg:
        tg.start_soon(enter, "first", turns.together())
        await anyio.wait_all_tasks_blocked()
        tg.start_soon(enter, "alone", turns.alone())
        await anyio.wait_all_tasks_blocked()
        tg.start_soon(enter, "later", turns.together())
        await anyio.wait_all_tasks_blocked()
        assert order == ["first"]
        first_may_leave.set()
    assert order == ["first", "alone", "later"]
