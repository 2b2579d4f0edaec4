"""The learner's end of a transfer over NCCL: vLLM's own trainer class sends the weights from the learner's memory.

vLLM's class would also drive the server. Here those calls do nothing, because the runtime makes them and owns the
pause. Only imported in the learner's child process. Imports vLLM on first use.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

import torch

from pace_async.transfer import ADDRESS, CHUNK, RECEIVER, SENDER, Transfer, broken_off_after


class CannotSend(ValueError):
    """The learner's memory lacks a tensor that the version's checkpoint names, or has it in a coarser type or another
    shape."""


class TransferBroken(RuntimeError):
    """Another end did not connect, or the group broke. The learner's weights are unchanged."""


class Meeting(Protocol):
    """vLLM's rendezvous of all ends. Each can leave small objects there for another."""

    def broadcast_obj(self, obj: Any, src: int) -> Any: ...


class NcclGroup(Protocol):
    """vLLM's communicator of all ends."""

    group: Meeting

    def broadcast(self, tensor: torch.Tensor, src: int, stream: Any = None) -> None: ...

    def destroy(self) -> None:
        """Abort the group, from any thread. This ends all waits inside it."""
        ...


class TensorLayout(Protocol):
    """Name, type (torch's spelling) and shape of each tensor of a version: `Transfer` and `Table`."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def dtypes(self) -> Sequence[str]: ...

    @property
    def shapes(self) -> Sequence[Sequence[int]]: ...


class Source:
    """The tensors of a version in the learner's memory, which may be read repeatedly. Each is rounded to the version's
    type as it is read, exactly as it was when the version was written. Raises CannotSend."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], version: TensorLayout) -> None:
        described = zip(version.names, version.dtypes, version.shapes, strict=True)
        self._tensors: list[tuple[str, torch.Tensor, torch.dtype]] = []
        for name, dtype, shape in described:
            tensor = tensors.get(name)
            if tensor is None:
                raise CannotSend(f"the model has no tensor {name}, which its checkpoint has")
            kind = cast("torch.dtype", getattr(torch, dtype))
            if list(tensor.shape) != list(shape) or kind.itemsize > tensor.dtype.itemsize:
                has = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
                raise CannotSend(f"{name} is {has} in memory and {dtype} {list(shape)} in its checkpoint")
            self._tensors.append((name, tensor.detach(), kind))

    def metadata(self) -> list[Any]:
        described = cast("Any", import_module("vllm.distributed.weight_transfer.base")).ParamMeta
        return [described(name, kind, tuple(tensor.shape)) for name, tensor, kind in self._tensors]

    @property
    def device(self) -> torch.device:
        """Where the learner computes."""
        return self._tensors[0][1].device if self._tensors else torch.device("cpu")

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        return ((name, tensor.to(kind)) for name, tensor, kind in self._tensors)


class NoCalls:
    """Client for vLLM's class that drives no server: its calls do nothing."""

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None: ...

    def start_weight_update(self) -> None: ...

    def update_weights(self, update_info: Any) -> None: ...

    def finish_weight_update(self, weight_version: str | None = None) -> None: ...


def send(tensors: Mapping[str, torch.Tensor], transfer: Transfer) -> None:
    """Connect to all receivers and send them the tensors. Raises CannotSend, TransferBroken."""
    source = Source(tensors, transfer)
    engine = cast("Any", import_module("vllm.distributed.weight_transfer.nccl_engine"))
    sender = engine.NCCLTrainerWeightTransferEngine(
        client=NoCalls(), source=source, packed=True, packed_buffer_size_bytes=CHUNK
    )
    try:
        group = sender.model_update_group = join(transfer)
        try:
            with broken_off_after(transfer.seconds, group.destroy):
                sender.send_weights()
                for receiver in range(RECEIVER, transfer.members):
                    group.group.broadcast_obj(None, receiver)  # until then it may still read this end's memory
        finally:
            sender.shutdown()
    except (OSError, RuntimeError) as error:  # TimeoutError is an OSError; NCCL and the store raise RuntimeError
        raise TransferBroken(f"{error or type(error).__name__}") from error


def join(transfer: Transfer) -> NcclGroup:
    """Wait for all receivers. Raises RuntimeError."""
    utils = cast("Any", import_module("vllm.distributed.utils"))
    nccl = cast("Any", import_module("vllm.distributed.device_communicators.pynccl"))
    environment = cast("Any", import_module("vllm.utils.nccl"))
    meeting = utils.StatelessProcessGroup.create(
        host=ADDRESS,
        port=transfer.port,
        rank=SENDER,
        world_size=transfer.members,
        store_timeout=transfer.seconds,
    )
    with environment.unpinned_nccl_env():
        return nccl.PyNcclCommunicator(meeting, device=torch.accelerator.current_device_index())
