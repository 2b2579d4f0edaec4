"""The learner's end of a transfer over NCCL: the weights as they stand in its memory, by vLLM's own trainer class.

vLLM's class would drive the server too. Here it does not: what it calls for that does nothing, because the runtime
makes the calls and owns the pause. Only imported in the learner's child process; imports vLLM on first use.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Protocol, cast

import torch

from pace_async.transfer import ADDRESS, CHUNK, MEMBERS, RECEIVER, SENDER, Transfer, broken_off_after


class CannotSend(ValueError):
    """The learner's memory does not hold what the version's checkpoint names."""


class TransferBroken(RuntimeError):
    """The other end did not come, or the group broke; the learner's weights are as they were."""


class Meeting(Protocol):
    """Where the ends met, as vLLM has it: small things can be left there for the other."""

    def recv_obj(self, src: int) -> Any: ...


class Group(Protocol):
    """Both ends, as vLLM's communicator has it."""

    group: Meeting

    def broadcast(self, tensor: torch.Tensor, src: int, stream: Any = None) -> None: ...

    def destroy(self) -> None:
        """Break the group off, from any thread: whoever waits in it waits no longer."""
        ...


class Source:
    """What vLLM's class reads the tensors from, as often as it likes. Raises CannotSend."""

    def __init__(self, held: Mapping[str, torch.Tensor], transfer: Transfer) -> None:
        described = zip(transfer.names, transfer.dtypes, transfer.shapes, strict=True)
        self._tensors: list[tuple[str, torch.Tensor]] = []
        for name, dtype, shape in described:
            tensor = held.get(name)
            if tensor is None:
                raise CannotSend(f"the model keeps {name} under another name than its checkpoint")
            has = str(tensor.dtype).removeprefix("torch."), list(tensor.shape)
            if has != (dtype, list(shape)):
                raise CannotSend(f"{name} is {has[0]} {has[1]} in memory and {dtype} {list(shape)} in its checkpoint")
            self._tensors.append((name, tensor.detach()))

    def metadata(self) -> list[Any]:
        described = cast("Any", import_module("vllm.distributed.weight_transfer.base")).ParamMeta
        return [described(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in self._tensors]

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        return iter(self._tensors)


class NoCalls:
    """What vLLM's class calls to drive a server."""

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None: ...

    def start_weight_update(self) -> None: ...

    def update_weights(self, update_info: Any) -> None: ...

    def finish_weight_update(self, weight_version: str | None = None) -> None: ...


def send(held: Mapping[str, torch.Tensor], transfer: Transfer) -> None:
    """Meet the receiver and send it the tensors. Raises CannotSend, TransferBroken."""
    source = Source(held, transfer)
    engine = cast("Any", import_module("vllm.distributed.weight_transfer.nccl_engine"))
    sender = engine.NCCLTrainerWeightTransferEngine(
        client=NoCalls(), source=source, packed=True, packed_buffer_size_bytes=CHUNK
    )
    try:
        group = sender.model_update_group = join(transfer)
        try:
            with broken_off_after(transfer.seconds, group.destroy):
                sender.send_weights()
                group.group.recv_obj(RECEIVER)  # until then it may read what this end's memory holds
        finally:
            sender.shutdown()
    except (OSError, RuntimeError) as error:  # a TimeoutError is an OSError, an error of NCCL or the store the other
        raise TransferBroken(f"{error or type(error).__name__}") from error


def join(transfer: Transfer) -> Group:
    """Wait for the receiver. Raises RuntimeError."""
    utils = cast("Any", import_module("vllm.distributed.utils"))
    nccl = cast("Any", import_module("vllm.distributed.device_communicators.pynccl"))
    environment = cast("Any", import_module("vllm.utils.nccl"))
    meeting = utils.StatelessProcessGroup.create(
        host=ADDRESS,
        port=transfer.port,
        rank=SENDER,
        world_size=MEMBERS,
        store_timeout=transfer.seconds,
    )
    with environment.unpinned_nccl_env():
        return nccl.PyNcclCommunicator(meeting, device=torch.accelerator.current_device_index())
