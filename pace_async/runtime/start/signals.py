"""Ctrl-C: once drains, twice cancels, three times exits. SIGTERM counts like Ctrl-C. A closed terminal (SIGHUP) drains,
and may be reported twice. Under nohup it is ignored."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from threading import Event
from types import FrameType
from typing import Any, TypeVar

import anyio

from pace_async.events import RunStateChanged
from pace_async.observe.keyboard import restore_all
from pace_async.runtime.run.core import Core
from pace_async.runtime.run.loop_turns import TimedLoop

INTERRUPTED = 130
T = TypeVar("T")
_main = list[asyncio.Task[Any]]()
"""The task that a signal cancels, while `run_until_signal` runs it."""
_asked = Event()
"""Set by a signal that ends the run, also if the run was ending already."""


def asked_to_end() -> bool:
    """Whether such a signal came during the last search, or after it. Then no other run may begin."""
    return _asked.is_set()


async def obey_signals(core: Core, scope: anyio.CancelScope) -> None:
    """Run beside the search until cancelled. Draining opens no lease and lets running rollouts finish, until the drain
    deadline. Unfinished ones stay open for `pace resume`. After the search SIGTERM and SIGHUP have no effect: the
    clean-up ends within its own deadlines."""
    with _asked_nothing_more():
        await _obey(core, scope)


async def _obey(core: Core, scope: anyio.CancelScope) -> None:
    presses, hung_up = 0, False
    async with anyio.create_task_group() as group:
        with anyio.open_signal_receiver(signal.SIGINT, *_asking_to_end()) as signals:
            async for number in signals:
                if number == signal.SIGHUP and hung_up:
                    continue
                hung_up = hung_up or number == signal.SIGHUP
                presses += 1
                _asked.set()
                if presses == 1:
                    core.stop("interrupted")
                    group.start_soon(_cancel_later, core, scope)
                    drains = f"interrupted, for at most {core.config.faults.drain_s:g} s"
                    group.start_soon(core.record, RunStateChanged("draining", drains, core.stages.clock.now()))
                elif presses == 2:
                    scope.cancel()
                else:
                    restore_all()
                    os._exit(INTERRUPTED)


@contextmanager
def _asked_nothing_more() -> Generator[None]:
    """Ignore signals that end the run, until `ends_as_by_ctrl_c` ends. Outside of it they act as before. Without this,
    closing the receiver would let them kill the process."""
    before = {number: signal.getsignal(number) for number in _asking_to_end()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, _ends_already if handler is _press else handler)


def _ends_already(_number: int, _frame: FrameType | None) -> None:
    _asked.set()


@contextmanager
def ends_as_by_ctrl_c() -> Generator[None]:
    """Before and after the search, other signals that end the run act like Ctrl-C."""
    _asked.clear()
    before = {number: signal.signal(number, _press) for number in _asking_to_end()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_until_signal(main: Callable[..., Coroutine[Any, Any, T]], *arguments: object) -> T:
    """Run `main` in an event loop whose turns are timed. Raises KeyboardInterrupt if a signal ended it before or after
    the search, and what `main` raises."""

    async def cancelled_by_signal() -> T:
        _main[:] = [task] if (task := asyncio.current_task()) is not None else []
        try:
            return await main(*arguments)
        finally:
            _main.clear()

    with ends_as_by_ctrl_c():
        try:
            return anyio.run(cancelled_by_signal, backend_options={"loop_factory": TimedLoop})
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


def _press(_number: int, _frame: FrameType | None) -> None:
    """Pass the signal on as Ctrl-C. Where a shell put the run into the background, Ctrl-C is ignored: then it cancels
    the main task, as asyncio does for Ctrl-C, because an exception raised here would end any task in any line."""
    if signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, signal.SIG_DFL):
        signal.raise_signal(signal.SIGINT)
    elif _main and not _main[0].cancelling():
        _main[0].cancel()
        _main[0].get_loop().call_soon_threadsafe(lambda: None)  # wakes the loop
    else:
        raise KeyboardInterrupt


def _asking_to_end() -> tuple[signal.Signals, ...]:
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGTERM,) if ignored else (signal.SIGTERM, signal.SIGHUP)


async def _cancel_later(core: Core, scope: anyio.CancelScope) -> None:
    await core.stages.clock.sleep(core.config.faults.drain_s)
    scope.cancel()
