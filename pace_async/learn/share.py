"""The learner's end of a push on one card: a copy of the version in one buffer, which the engine opens.

The engine gets the fields of a handle (`transfer.SharedBuffer`), nothing pickled. On a card the handle is CUDA's, by
torch. On the processor the buffer is an anonymous file, which has no name that a killed process could leave behind. It
is sealed once it is written: the kernel lets nobody change it.

A version is shared until `end`. torch frees a buffer of a card only after its reader has closed it. A reader that died
never does. So a buffer whose reader is not known to have closed it is kept for the versions after it, and at most one
buffer is lost. A reader that comes late finds other bytes in it, so it has to compare them (`engines.shared`).

Only imported in the learner's child process. No card was measured.
"""

import fcntl
import mmap
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch

from pace_async.learn.send import Source
from pace_async.transfer import CardHandle, HostHandle, SharedBuffer, Table, laid_out

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE if hasattr(fcntl, "F_SEAL_WRITE") else 0


class CannotShare(RuntimeError):
    """There is no room for the buffer, or the system has no such memory. Nothing is shared."""


class SharedVersion:
    """The version that is shared, if there is one."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._buffer: torch.Tensor | None = None
        self._shares_card = False
        self._lost = False

    def share(self, tensors: Mapping[str, torch.Tensor], table: Table) -> SharedBuffer:
        """Copy the tensors of `table`, in its types, into a buffer and share it. Raises CannotSend, CannotShare."""
        self.end(closed=False)
        source = Source(tensors, table)
        offsets, size = laid_out(table.lengths())
        try:
            on_host = source.device.type == "cpu"
            handle = self._on_host(source, offsets, size) if on_host else self._on_card(source, offsets, size)
        except (OSError, RuntimeError, AttributeError) as error:
            raise CannotShare(f"{size:,} bytes cannot be shared: {error or type(error).__name__}") from error
        return SharedBuffer(handle, size, table.names, table.dtypes, table.shapes, offsets)

    def end(self, *, closed: bool) -> None:
        """Free the buffer. `closed`: its reader is known to have closed it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        if self._shares_card:
            self._shares_card = False
            self._lost = self._lost or not closed
            if not self._lost:
                self._buffer = None
                torch.cuda.ipc_collect()

    def _on_host(self, source: Source, offsets: Sequence[int], size: int) -> HostHandle:
        descriptor = os.memfd_create("pace-version", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(descriptor, 0, size)  # without room it fails here, and not in the middle of writing
            with mmap.mmap(descriptor, size) as memory:
                _fill(torch.frombuffer(memory, dtype=torch.uint8), source, offsets)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return HostHandle(os.getpid(), descriptor)

    def _on_card(self, source: Source, offsets: Sequence[int], size: int) -> CardHandle:
        if self._buffer is None or self._buffer.numel() != size:
            self._buffer = _new(size, source.device)
        _fill(self._buffer, source, offsets)
        handle = _exported(self._buffer)
        self._shares_card = True
        return handle


def _new(size: int, device: torch.device) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def _exported(buffer: torch.Tensor) -> CardHandle:
    torch.cuda.synchronize(buffer.device)
    handle: tuple[Any, ...] = cast("Any", buffer.untyped_storage())._share_cuda_()
    _, memory, length, offset, counter, counter_offset, event, awaits_event = handle
    return CardHandle(
        card=str(cast("Any", torch.cuda).get_device_properties(buffer.device).uuid),
        memory=memory.hex(),
        length=length,
        offset=offset,
        counter=counter.hex(),
        counter_offset=counter_offset,
        event=event.hex(),
        awaits_event=awaits_event,
    )


def _fill(buffer: torch.Tensor, source: Source, offsets: Sequence[int]) -> None:
    for (_, tensor), offset in zip(source, offsets, strict=True):
        length = tensor.numel() * tensor.element_size()
        buffer[offset : offset + length].view(tensor.dtype).view(tensor.shape).copy_(tensor)
