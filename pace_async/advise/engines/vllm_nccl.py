"""The engine's end of a transfer over NCCL: vLLM's own engine for it, with a shelf where it expects a model.

So what arrives is looked at before any of it reaches the model. Runs beside generation, in a thread of its own, on
streams of its own (that is what vLLM's packed transfer uses); the tensors go on to the machine's memory as they come,
and no more than two chunks of them are on the card. Runs inside vLLM's workers. Not for models that are split over
devices: the group has one receiver.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from importlib import import_module
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from pace_async.transfer import ADDRESS, CHUNK, MEMBERS, RECEIVER, SENDER, Transfer, broken_off_after

T = TypeVar("T")

_nccl = cast("Any", import_module("vllm.distributed.weight_transfer.nccl_engine"))
_Engine = cast("type[Any]", _nccl.NCCLWeightTransferEngine)


class Shelf:
    """Keeps what arrives, in the machine's memory, by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def load_weights(self, given: Sequence[tuple[str, Tensor]]) -> None:
        """Called by vLLM with views of a buffer that it uses again."""
        for name, tensor in given:
            self.tensors[name] = tensor.to("cpu", copy=True)


class Receiver(_Engine):
    """vLLM's receiving end, for one transfer."""

    def __init__(self, config: Any, vllm_config: Any, device: torch.device) -> None:
        base: Any = super()
        self.shelf = Shelf()
        base.__init__(config, vllm_config, device, self.shelf)

    def receive(self, transfer: Transfer) -> dict[str, Tensor]:
        """Meet the learner and take its tensors. Raises RuntimeError, OSError; TimeoutError after the transfer's own
        deadline."""
        if self.device.type != "cpu":
            torch.accelerator.set_device_index(self.device)  # each thread has its own
        self.init_transfer_engine(
            _nccl.NCCLWeightTransferInitInfo(
                master_address=ADDRESS,
                master_port=transfer.port,
                rank_offset=RECEIVER,
                world_size=MEMBERS,
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
                self.model_update_group.group.send_obj(True, SENDER)
        finally:
            self.shutdown()
        return self.shelf.tensors


def beside(work: Callable[[], T]) -> Future[T]:
    """Do it in a thread of its own, which nobody waits for: a peer that never comes holds up no later transfer."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="pace-transfer", daemon=True).start()
    return future
