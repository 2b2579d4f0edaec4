"""The engine's end of a transfer over NCCL: vLLM's own NCCL engine, which fills a `Shelf` instead of a model.

So tensors are checked before any of them reaches the model. A transfer runs beside generation, in a separate thread and
on separate streams (vLLM's packed transfer uses its own). Tensors move to host memory as they arrive, so at most two
chunks are on the card. Runs inside vLLM's workers. If the model is divided among ranks, each is a receiver of its own
and gets every tensor whole, of which vLLM's loader takes the rank's slices.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from importlib import import_module
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from pace_async.transfer import ADDRESS, CHUNK, Transfer, broken_off_after

T = TypeVar("T")

_nccl = cast("Any", import_module("vllm.distributed.weight_transfer.nccl_engine"))
_Engine = cast("type[Any]", _nccl.NCCLWeightTransferEngine)


class Shelf:
    """Received tensors in host memory, by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def load_weights(self, weights: Sequence[tuple[str, Tensor]]) -> None:
        """vLLM calls this with views of a buffer that it reuses."""
        for name, tensor in weights:
            self.tensors[name] = tensor.to("cpu", copy=True)


class Receiver(_Engine):
    """Receiver of one transfer."""

    def __init__(self, config: Any, vllm_config: Any, device: torch.device) -> None:
        base: Any = super()
        self.shelf = Shelf()
        base.__init__(config, vllm_config, device, self.shelf)

    def receive(self, transfer: Transfer) -> dict[str, Tensor]:
        """Connect to the learner and receive its tensors. Raises RuntimeError, OSError, or TimeoutError after the
        transfer's own deadline."""
        if self.device.type != "cpu":
            torch.accelerator.set_device_index(self.device)  # the index is per thread
        self.init_transfer_engine(
            _nccl.NCCLWeightTransferInitInfo(
                master_address=ADDRESS,
                master_port=transfer.port,
                rank_offset=transfer.first,
                world_size=transfer.members,
                packed=True,
                packed_buffer_size_bytes=CHUNK,
            )
        )
        try:
            with broken_off_after(transfer.seconds, self.shutdown):
                self.receive_weights(
                    _nccl.NCCLWeightTransferUpdateInfo(
                        names=list(transfer.names),
                        dtype_names=list(transfer.dtypes),
                        shapes=[list(shape) for shape in transfer.shapes],
                    )
                )
                meeting = self.model_update_group.group
                meeting.broadcast_obj(True, meeting.rank)  # vLLM's send_obj does not say who sent
        finally:
            self.shutdown()
        return self.shelf.tensors


def beside(work: Callable[[], T]) -> Future[T]:
    """Run `work` in a daemon thread, so that a missing peer delays no later transfer."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="pace-transfer", daemon=True).start()
    return future
