"""Both ends of a transfer from GPU to GPU, in this process."""

import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import anyio.to_thread
import torch

from pace_async.errors import InfrastructureFault
from pace_async.learn import send
from pace_async.transfer import Table, Transfer


class InMemory:
    """A `Sender` of this process: sends `held` when asked for any version, or does not come. Keeps what it was asked to
    send."""

    def __init__(self, held: Mapping[str, torch.Tensor] | None = None) -> None:
        self.held = held
        self.asked: list[Transfer] = []

    def can_send(self, version: int) -> bool:
        return True

    async def send(self, transfer: Transfer) -> None:
        self.asked.append(transfer)
        if self.held is None:
            raise InfrastructureFault("transfer_broken", "it did not come")
        await anyio.to_thread.run_sync(send.send, self.held, transfer)


def transfer_of(held: Mapping[str, torch.Tensor], seconds: float) -> Transfer:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    table = table_of(held)
    return Transfer(port=port, seconds=seconds, names=table.names, dtypes=table.dtypes, shapes=table.shapes)


def table_of(held: Mapping[str, torch.Tensor]) -> Table:
    dtypes = [str(tensor.dtype).removeprefix("torch.") for tensor in held.values()]
    return Table(list(held), dtypes, [list(tensor.shape) for tensor in held.values()])


def receiver(rank: int = 0) -> Any:
    """The receiving end of a rank of some engine."""
    from pace_async.advise.engines.vllm_nccl import Receiver

    parallel_config = import_module("vllm.config").ParallelConfig()
    parallel_config.rank = rank
    config = SimpleNamespace(parallel_config=parallel_config, model_config=None)
    return Receiver(SimpleNamespace(backend="pace_file"), config, torch.device("cpu"))


def begun(work: Callable[[], object]) -> Future[object]:
    """What the work returns or raises, in a thread of its own."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future
