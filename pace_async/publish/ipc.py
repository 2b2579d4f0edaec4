"""Publishing on one card: the engine opens a buffer of the learner's and loads the version from it.

    share → init (announce, with the handle) → prepared → pause → start → update → receipt → finish → resume → close

Invariant: the same as for publishing by file. Only the first step and the last differ. What lies in the buffer is
compared with the learner's digests before any pause. So a learner that dies before it leaves the old version served.
One that dies later changes nothing that is not noticed: the engine loads what was compared, or the push fails.
The learner keeps the buffer until the engine has answered that it has closed it, or does not answer. A version that the
learner does not hold is published by file: version 0, and any version while the learner trains or is being rebuilt.
"""

import contextlib
import json
from pathlib import Path
from typing import Unpack

import anyio

from pace_async.errors import InfrastructureFault
from pace_async.publish.base import EnginePublisher, PublisherParts, PushFailed, PushSettings, Receipt, Sharer
from pace_async.publish.file import FilePublisher, by_file

CLOSE_S = 10.0
"""Deadline of the last step. The engine closes the buffer between two steps of generation."""


def by_ipc(parts: PublisherParts) -> EnginePublisher:
    """Publisher from the learner's memory, or by file if there is no learner."""
    if parts.sharer is None:
        return by_file(parts)
    return IpcPublisher(parts.url, parts.sharer, phase_s=parts.phase_s, label=parts.label)


class IpcPublisher(FilePublisher):
    """A `Publisher` to one engine on the learner's card, or on the processor as the learner."""

    def __init__(self, base_url: str, sharer: Sharer, **settings: Unpack[PushSettings]) -> None:
        super().__init__(base_url, **settings)
        self._sharer = sharer
        self._shares = False

    async def _push(self, version: int, weights: Path) -> Receipt:
        try:
            return await super()._push(version, weights)
        finally:
            if self._shares:
                self._shares = False
                closed = False
                with anyio.move_on_after(CLOSE_S, shield=True):
                    closed = await self._closed()
                self._sharer.end_share(closed=closed)

    async def _announce(self, version: int, folder: Path) -> None:
        """The engine opens the buffer, answers, and reads while it generates."""
        if not self._sharer.can_send(version):
            await super()._announce(version, folder)
            return
        table = self._phases.table(folder)
        try:
            shared = await self._sharer.share(version, table)
        except InfrastructureFault as fault:
            raise PushFailed(fault.kind, f"share: {fault.detail}", self._phases.began) from fault
        self._shares = True
        announced = {"path": str(folder), "shared": shared.to_json()}
        await self._phases.ask("init_weight_transfer_engine", {"init_info": announced})

    async def _closed(self) -> bool:
        """Whether the engine answers that it had opened the buffer and has closed it."""
        with contextlib.suppress(PushFailed, ValueError, KeyError, TypeError):
            answer = await self._phases.ask("collective_rpc", {"method": "memory_closed"})
            return json.loads(answer)["results"] == [{"closed": True}]
        return False
