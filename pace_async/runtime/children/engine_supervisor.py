"""Engine supervisor: restarts an engine that dies or hangs, with the newest complete weights, so that it never serves a
token of older ones. It also detects a learner that is lost between two requests.
"""

from typing import Protocol

import anyio

from pace_async.errors import GaveUp, InfrastructureFault
from pace_async.events import FaultSeen
from pace_async.learn.base import Trainer
from pace_async.runtime.run.core import Core


class SupervisedEngine(Protocol):
    """An engine that can die and come back."""

    @property
    def log(self) -> str:
        """A phrase that names the place of its log."""
        ...

    async def wait_lost(self, hung_s: float) -> InfrastructureFault:
        """Return the fault once the engine is lost: it has ended, or has not answered for `hung_s` seconds."""
        ...

    async def restart(self) -> None:
        """Return once it serves the newest complete weights. Raises InfrastructureFault if it does not come up."""
        ...


async def keep_engine(core: Core, engine: SupervisedEngine) -> None:
    """Run beside the search until cancelled. Raises GaveUp when the engine stays down beyond the patience set."""
    while True:
        fault = await engine.wait_lost(core.config.faults.hung_s)
        core.engine_up = False
        await core.fault("engine", fault)
        with anyio.move_on_after(core.config.faults.patience_s) as patience:
            await _revive(core, engine)
        if patience.cancelled_caught:
            seconds = core.config.faults.patience_s
            raise GaveUp(
                f"The advisor engine stayed down for {seconds:.0f} s: {engine.log}; `pace resume` goes on from what is "
                "committed."
            )
        await core.record(FaultSeen("engine", "engine_back", "it serves again", None, core.stages.clock.now()))
        core.engine_up = True
        core.changed()


async def _revive(core: Core, engine: SupervisedEngine) -> None:
    attempt = 0
    while True:
        try:
            await engine.restart()
            return
        except InfrastructureFault as fault:
            attempt += 1
            await core.fault("engine", fault)
            await core.stages.clock.sleep(core.backoff(attempt))


async def watch_learner(core: Core, learner: Trainer) -> None:
    """Run beside the search until cancelled."""
    while True:
        await core.fault("learn", await learner.wait_lost())
