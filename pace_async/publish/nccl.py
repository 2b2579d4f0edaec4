"""Publishing over NCCL: the learner sends a version from its memory, and the engine receives it while it generates.

    init (announce, with where to meet) ∥ learner sends → prepared → pause → start → update → receipt → finish → resume

Invariant: the same as for publishing by file. Only the first step differs. Received tensors are compared with the
learner's digests before any pause. So a failure in transit leaves the old version served and the engine's weights
known. Each push makes a new group, so no broken group is reused. Engines that are pushed to at the same time share one
(`broadcast`). If such a group breaks, an engine that still answers joins the next one at once. A version that the
learner does not hold is published by file: version 0, and any version while the learner trains or is being rebuilt.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Unpack

from pace_async.errors import InfrastructureFault
from pace_async.publish.base import EnginePublisher, GroupSender, PublisherParts, PushFailed, PushSettings
from pace_async.publish.broadcast import GroupBroken
from pace_async.publish.file import FilePublisher, by_file
from pace_async.transfer import Transfer


def by_nccl(parts: PublisherParts) -> EnginePublisher:
    """Publisher from the learner's memory, or by file if there is no learner."""
    if parts.sender is None:
        return by_file(parts)
    return NcclPublisher(parts.url, parts.sender, phase_s=parts.phase_s, label=parts.label)


class NcclPublisher(FilePublisher):
    """A `Publisher` to one engine on this machine. The deadline of a phase is also that of a transfer."""

    def __init__(self, base_url: str, sender: GroupSender, **settings: Unpack[PushSettings]) -> None:
        super().__init__(base_url, **settings)
        self._sender = sender

    async def _announce(self, version: int, folder: Path) -> None:
        """The engine answers at once and waits for the learner while it generates."""

        async def announce(transfer: Transfer) -> None:
            announced = {"path": str(folder), "transfer": asdict(transfer)}
            await self._phases.ask("init_weight_transfer_engine", {"init_info": announced})

        for again in (True, False):
            if not self._sender.can_send(version):
                await super()._announce(version, folder)
                return
            transfer, ranks = self._transfer_of(folder), await self._ranks()
            try:
                await self._sender.send(version, ranks, transfer, announce)
                return
            except PushFailed:
                raise
            except InfrastructureFault as fault:
                if not (again and isinstance(fault, GroupBroken)):
                    raise PushFailed(fault.kind, f"send: {fault.detail}", self._phases.began) from fault

    async def _ranks(self) -> int:
        """Among how many ranks the engine is divided. Raises PushFailed if it no longer answers."""
        answer = await self._phases.ask("collective_rpc", {"method": "serves_on"})
        try:
            return max(1, len(json.loads(answer)["results"]))
        except (ValueError, KeyError, TypeError) as error:
            detail = f"serves_on: {answer[:100]!r}"
            raise PushFailed("push_refused", detail, self._phases.began) from error

    def _transfer_of(self, folder: Path) -> Transfer:
        """Without its places in a group. Raises PushFailed."""
        table = self._phases.table(folder)
        return Transfer(
            port=0,
            seconds=self._phases.seconds,
            names=table.names,
            dtypes=table.dtypes,
            shapes=table.shapes,
        )
