"""Ctrl-C: once drains, twice cancels, thrice exits. SIGTERM drains."""

import os
import signal

import anyio

from pace_async.events import RunStateChanged
from pace_async.runtime.core import Core

INTERRUPTED = 130


async def obey_signals(core: Core, scope: anyio.CancelScope) -> None:
    """Run beside the search until cancelled. Draining opens no lease and lets what runs finish, for at most the drain
    deadline; what is then unfinished stays open for `pace resume`."""
    presses = 0
    async with anyio.create_task_group() as group:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                presses += 1
                if presses == 1:
                    core.stop("interrupted")
                    group.start_soon(_cancel_later, core, scope)
                    group.start_soon(core.record, RunStateChanged("draining", "interrupted", core.stages.clock.now()))
                elif presses == 2:
                    scope.cancel()
                else:
                    os._exit(INTERRUPTED)


async def _cancel_later(core: Core, scope: anyio.CancelScope) -> None:
    await core.stages.clock.sleep(core.config.faults.drain_s)
    scope.cancel()
