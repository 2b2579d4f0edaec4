"""Publishing over NCCL: the learner sends a version from its memory, and the engine receives it while it generates.

    init (announce, with where to meet) ∥ learner sends → prepared → pause → start → update → receipt → finish → resume

Invariant: the same as for publishing by file. Only the first step differs. Received tensors are compared with the
learner's digests before any pause. So a failure in transit leaves the old version served and the engine's weights
known. Each push makes a new group, so no broken group is reused. A version that the learner does not hold is published
by file: version 0, and any version while the learner trains or is being rebuilt.
"""

import socket
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import httpx

from pace_async.errors import InfrastructureFault
from pace_async.publish.base import EnginePublisher, PublisherParts, PushFailed, Sender
from pace_async.publish.file import FilePublisher, by_file
from pace_async.transfer import ADDRESS, Transfer
from pace_async.weights import contents

_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def by_nccl(parts: PublisherParts) -> EnginePublisher:
    """Publisher from the learner's memory, or by file if there is no learner."""
    if parts.sender is None:
        return by_file(parts)
    return NcclPublisher(parts.url, parts.sender, phase_s=parts.phase_s, label=parts.label)


class NcclPublisher(FilePublisher):
    """A `Publisher` to one engine on this machine. The deadline of a phase is also that of a transfer."""

    def __init__(
        self,
        base_url: str,
        sender: Sender,
        *,
        phase_s: float = 60.0,
        label: Callable[[int], str] = str,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(base_url, phase_s=phase_s, label=label, transport=transport)
        self._sender = sender

    async def _announce(self, version: int, folder: Path) -> None:
        """The engine answers at once and waits for the learner while it generates."""
        if not self._sender.can_send(version):
            await super()._announce(version, folder)
            return
        transfer = self._transfer_of(folder)
        announced = {"path": str(folder), "transfer": asdict(transfer)}
        await self._phases.ask("init_weight_transfer_engine", {"init_info": announced})
        try:
            await self._sender.send(transfer)
        except InfrastructureFault as fault:
            raise PushFailed(fault.kind, f"send: {fault.detail}", self._phases.began) from fault

    def _transfer_of(self, folder: Path) -> Transfer:
        """Raises PushFailed."""
        try:
            tensors = contents(folder)
            types = [_TYPES[tensor.dtype] for tensor in tensors]
        except (OSError, ValueError, KeyError) as error:
            detail = f"{folder} cannot be sent: {error}"
            raise PushFailed("incomplete_checkpoint", detail, self._phases.began) from error
        return Transfer(
            port=_free_port(),
            seconds=self._phases.seconds,
            names=[tensor.name for tensor in tensors],
            dtypes=types,
            shapes=[list(tensor.shape) for tensor in tensors],
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return probe.getsockname()[1]
