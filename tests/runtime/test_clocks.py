"""What every clock must do, the machine's, the virtual one and those that stand in for them."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from pace_async.runtime.run.clock import Clock, RealClock
from pace_async.simulate.virtual import VirtualClock, run_virtually
from tests.doubles.clocks import Brisk, Impatient, Jumping, Sleepy

Run = Callable[[Callable[[], Awaitable[None]]], None]


def really(main: Callable[[], Awaitable[None]]) -> None:
    anyio.run(main)


def virtually(main: Callable[[], Awaitable[None]]) -> None:
    run_virtually(main)


CLOCKS: list[tuple[Callable[[], Clock], Run]] = [
    (RealClock, really),
    (Brisk, really),
    (Impatient, really),
    (Sleepy, really),
    (VirtualClock, virtually),
    (Jumping, virtually),
]
every_clock = pytest.mark.parametrize(("make", "run"), CLOCKS, ids=[make.__name__ for make, _ in CLOCKS])


@every_clock
def test_monotonic_time_never_goes_back(make: Callable[[], Clock], run: Run) -> None:
    async def main() -> None:
        clock = make()
        times: list[float] = []
        for _ in range(20):
            times.append(clock.monotonic())
            clock.now()
            await clock.sleep(0.001)
        assert times == sorted(times)

    run(main)


@every_clock
def test_others_run_while_one_sleeps_and_a_sleep_can_be_cancelled(make: Callable[[], Clock], run: Run) -> None:
    async def main() -> None:
        clock, ran = make(), anyio.Event()

        async def other() -> None:
            ran.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            while not ran.is_set():
                await clock.sleep(0.001)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await clock.sleep(3600.0)
            raise AssertionError("the sleep was not cancelled")
        assert scope.cancelled_caught

    run(main)
