"""NCCL's stand-in for machines without a GPU: vLLM's own classes at both ends, and gloo in place of NCCL between them.

Only the communicator and the CUDA calls of vLLM's packed transfer are simulated. Rendezvous, chunks, order and threads
are the real ones. `python -m tests.doubles.simulated_nccl` is a learner's process with it. `simulated_nccl_worker`
brings it into a server.
"""

import contextlib
import threading
import time
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.distributed as dist


class SimulatedCommunicator:
    """Stands where vLLM's PyNcclCommunicator does. Broken off, it behaves as NCCL does: what waits, waits no longer,
    and nothing says that nothing came. A group of gloo's that is let go of waits `patience` for its peer."""

    patience = timedelta(seconds=60)

    def __init__(self, group: Any, device: Any, library_path: str | None = None) -> None:
        self.group = group
        self._broken = threading.Event()
        store = torch.distributed.distributed_c10d.PrefixStore("simulated", group.store)
        self._gloo: Any = dist.ProcessGroupGloo(store, group.rank, group.world_size, self.patience)

    def broadcast(self, tensor: torch.Tensor, src: int, stream: Any = None) -> None:
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = src, 0
        work = self._gloo.broadcast([tensor], options)
        while not work.is_completed():
            if self._broken.is_set():
                return
            time.sleep(0.001)
        work.wait()

    def destroy(self) -> None:
        self._broken.set()


class _Stream:
    def synchronize(self) -> None: ...


def _streams(device: Any, count: int) -> tuple[_Stream, ...]:
    return tuple(_Stream() for _ in range(count))


def stand_in(patch: pytest.MonkeyPatch) -> None:
    """Put the stand-in where NCCL would be, in this process."""
    packed = import_module("vllm.distributed.weight_transfer.packed_tensor")
    pynccl = import_module("vllm.distributed.device_communicators.pynccl")
    patch.setattr(pynccl, "PyNcclCommunicator", SimulatedCommunicator)
    patch.setattr(packed, "_get_streams", _streams)
    patch.setattr(torch.cuda, "stream", contextlib.nullcontext)
    patch.setattr(torch.accelerator, "current_device_index", lambda: 0)


if __name__ == "__main__":
    from pace_async.learn.process import main

    with pytest.MonkeyPatch.context() as patch_for_the_learner:
        stand_in(patch_for_the_learner)
        main()
