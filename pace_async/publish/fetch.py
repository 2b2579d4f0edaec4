"""Publishing to an engine that does not see the run's files: it fetches the version by its digest.

    init (announce, with the offer) → engine fetches → prepared → pause → start → update → receipt → finish → resume

Invariant: the same as for publishing by file. Only the first step differs. The engine has the whole version, and its
digests are compared, before any pause. So a fetch that breaks off leaves the old version served.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Unpack

from pace_async.errors import InfrastructureFault
from pace_async.publish.base import EnginePublisher, Offerer, PublisherParts, PushFailed, PushSettings
from pace_async.publish.file import FilePublisher, by_file


def by_fetch(parts: PublisherParts) -> EnginePublisher:
    """Publisher to an engine that fetches, or by file if nothing offers versions."""
    if parts.offerer is None:
        return by_file(parts)
    return FetchPublisher(parts.url, parts.offerer, phase_s=parts.phase_s, label=parts.label)


class FetchPublisher(FilePublisher):
    """A `Publisher` to one engine on any machine. The deadline of a phase is also that of a fetch."""

    def __init__(self, base_url: str, offerer: Offerer, **settings: Unpack[PushSettings]) -> None:
        super().__init__(base_url, **settings)
        self._url = base_url
        self._offerer = offerer

    async def _announce(self, version: int, folder: Path) -> None:
        """The engine answers at once and fetches while it generates."""
        digests = await self._phases.digests(folder)
        try:
            offer = await self._offerer.offer(folder, digests, self._url, self._phases.seconds)
        except InfrastructureFault as fault:
            raise PushFailed(fault.kind, f"offer: {fault.detail}", self._phases.began) from fault
        announced = {"path": str(folder), "fetch": asdict(offer)}
        await self._phases.ask("init_weight_transfer_engine", {"init_info": announced})
