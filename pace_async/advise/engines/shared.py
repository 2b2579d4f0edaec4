"""The engine's side of a push on one card: the learner's buffer, opened.

Invariant: what is read here is what the learner wrote, or it is refused. On the processor the kernel lets nobody change
the buffer (its seals are checked). On a card the learner may die and its memory may get other content, so a reader
compares `mark` before and after it has read. Imports no vLLM.
"""

import fcntl
import gc
import mmap
import os
from typing import Any, cast

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pace_async.advise.engines.load import BadCheckpoint
from pace_async.transfer import CardHandle, HostHandle, SharedBuffer


class OpenedVersion:
    """The version in a buffer of the learner's. `tensors` by name are views of it. Raises BadCheckpoint."""

    def __init__(self, shared: SharedBuffer) -> None:
        buffer = _host(shared.handle, shared.size) if isinstance(shared.handle, HostHandle) else _card(shared.handle)
        self._words: torch.Tensor | None = buffer[: shared.size].view(torch.int64)
        self._storage = StorageWeakRef(cast("Any", buffer.untyped_storage()))
        self.tensors = _views(buffer, shared)

    def mark(self) -> int:
        """A number that changes if the content does: the sum of all words of eight bytes."""
        assert self._words is not None
        return int(self._words.sum())

    def close(self) -> bool:
        """Let go of the buffer. True if nothing in this process refers to it any more."""
        self._words = None
        self.tensors = {}
        if not self._expired():
            gc.collect()  # the traceback of a failure may hold a tensor
        return self._expired()

    def _expired(self) -> bool:
        return bool(cast("Any", self._storage).expired())


def _host(handle: HostHandle, size: int) -> torch.Tensor:
    try:
        descriptor = os.open(f"/proc/{handle.process}/fd/{handle.descriptor}", os.O_RDONLY)
    except OSError as error:
        raise BadCheckpoint(f"the learner's memory cannot be opened: {error}") from error
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        if not seals & fcntl.F_SEAL_SHRINK or not seals & fcntl.F_SEAL_WRITE or os.fstat(descriptor).st_size < size:
            raise BadCheckpoint("what was opened is not a version that the learner has written")
        memory = mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY)
    except OSError as error:  # no memory has seals but an anonymous file
        raise BadCheckpoint(f"what was opened is not the learner's memory: {error}") from error
    finally:
        os.close(descriptor)
    return torch.frombuffer(memory, dtype=torch.uint8)


def _card(handle: CardHandle) -> torch.Tensor:
    here = torch.cuda.current_device()
    own = str(cast("Any", torch.cuda).get_device_properties(here).uuid)
    if own != handle.card:
        raise BadCheckpoint(f"the learner's memory is on card {handle.card}, and this engine computes on {own}")
    storage = cast("Any", torch.UntypedStorage)._new_shared_cuda(
        here,
        bytes.fromhex(handle.memory),
        handle.length,
        handle.offset,
        bytes.fromhex(handle.counter),
        handle.counter_offset,
        bytes.fromhex(handle.event),
        handle.awaits_event,
    )
    return torch.empty(0, dtype=torch.uint8, device=torch.device("cuda", here)).set_(storage)


def _views(buffer: torch.Tensor, shared: SharedBuffer) -> dict[str, torch.Tensor]:
    try:
        lengths = shared.table.lengths()
        described = list(zip(shared.names, shared.dtypes, shared.shapes, shared.offsets, lengths, strict=True))
    except (KeyError, ValueError) as error:
        raise BadCheckpoint(f"the table of a shared version is wrong: {error!r}") from error
    views: dict[str, torch.Tensor] = {}
    for name, dtype, shape, offset, length in described:
        if offset < 0 or offset + length > shared.size:
            raise BadCheckpoint(f"{name} does not lie in the learner's memory")
        kind = cast("torch.dtype", getattr(torch, dtype))
        views[name] = buffer[offset : offset + length].view(kind).view(tuple(shape))
    return views
