"""One outside operation of the learning side, tried until it works or patience ends.

Each failure is a row and a line on the screen. While a disk fails the run counts as paused, until a fact says that the
disk is back.
"""

from pace_async.durable import DISK_FAULTS
from pace_async.errors import GaveUp, InfrastructureFault
from pace_async.events import FaultSeen, Stalled
from pace_async.runtime.run.core import Core

DISK_BACK = "disk_back"


class Outage:
    """Begins at its first failure. `failure` is the beginning of the message when it gives up, before the time: "The
    learner could not train"."""

    def __init__(self, core: Core, where: str, failure: str) -> None:
        self._core, self._where, self._what = core, where, failure
        self._attempt = 0
        self._since: float | None = None
        self._disk = ""

    async def failed(self, fault: InfrastructureFault) -> None:
        """Report a failure and wait until it is time to try again. Raises GaveUp if patience is over."""
        core = self._core
        now, patience = core.stages.clock.monotonic(), core.config.faults.patience_s
        since = self._since = now if self._since is None else self._since
        self._attempt += 1
        if fault.kind in DISK_FAULTS:
            self._disk = DISK_FAULTS[fault.kind]
            core.show(Stalled(self._disk, core.stages.clock.now() - (now - since)))
        await core.fault(self._where, fault)
        if now - since > patience:
            raise GaveUp(f"{self._what} for {patience:.0f} s ({fault}); `pace resume` goes on from what is committed.")
        await core.stages.clock.sleep(core.backoff(self._attempt))

    async def over(self) -> None:
        """Report that it worked."""
        if self._disk and self._since is not None:
            clock = self._core.stages.clock
            detail = f"{self._disk}, for {clock.monotonic() - self._since:.0f} s; nothing was lost"
            await self._core.record(FaultSeen(self._where, DISK_BACK, detail, None, clock.now()))
