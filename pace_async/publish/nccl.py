"""Publishing over NCCL: the learner sends a version from its memory, the engine takes it in while it generates.

    init (announce, with where to meet) ∥ learner sends → prepared → pause → start → update → receipt → finish → resume

Invariant: that of publishing by file, of which only the first step differs. What arrived is compared with what the
learner wrote down, tensor by tensor, before anything is paused; so whatever goes wrong on the way leaves the old
version served, and the engine's weights known. Each push meets anew, and no group is kept that could be broken. What
the learner does not hold just now (version 0; any version while it trains or is being rebuilt) goes by file.
"""

import socket
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import httpx

from pace_async.errors import InfrastructureFault
from pace_async.publish.base import PushFailed
from pace_async.publish.file import FilePublisher
from pace_async.transfer import ADDRESS, Transfer
from pace_async.weights import contents

_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


class Sender(Protocol):
    """Sends the newest version from its own memory."""

    def can_send(self, version: int) -> bool:
        """Whether it holds that version, as its files have it, and is at nothing else."""
        ...

    async def send(self, transfer: Transfer) -> None:
        """Meet the other end, and return when that has everything. Raises InfrastructureFault, also where the other end
        did not come in time."""
        ...


class NcclPublisher(FilePublisher):
    """A `Publisher` to one engine on this machine; `phase_s` is the deadline of a transfer too."""

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
        """The engine answers at once and waits for the learner beside its work."""
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
            seconds=self._phase_s,
            names=[tensor.name for tensor in tensors],
            dtypes=types,
            shapes=[list(tensor.shape) for tensor in tensors],
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return probe.getsockname()[1]
