"""Publisher transports (`advisor.transport`): how a version gets from the learner to an engine.

The code of a transport makes a publisher to one engine. Adapters have a publisher of
their own, whatever the transport.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.publish import fetch, file, ipc, nccl
    from pace_async.publish.base import PublisherFactory
else:
    fetch, file, ipc, nccl = later("pace_async.publish", "fetch", "file", "ipc", "nccl")


@dataclass(frozen=True, slots=True)
class PublisherTransport(Entry["PublisherFactory"]):
    """`gpu_to_gpu`: versions go from the learner's GPU to the engine's, so each needs its own GPU, on this machine.
    `in_one_memory`: the engine opens the learner's memory, so both need the same GPU, or the processor.
    `carries_adapters`: it can be chosen if the learner makes adapters. `fetches`: servers by URL fetch versions from
    the run, so they need not see its files."""

    gpu_to_gpu: bool = False
    in_one_memory: bool = False
    carries_adapters: bool = True
    fetches: bool = False


TRANSPORTS = Registry(
    "transport",
    PublisherTransport("file", "the engine reads the files that the learner wrote", lambda: file.by_file),
    PublisherTransport(
        "nccl",
        "the learner sends it from GPU to GPU while the server generates; needs vLLM on other GPUs of this machine",
        lambda: nccl.by_nccl,
        gpu_to_gpu=True,
        carries_adapters=False,
    ),
    PublisherTransport(
        "ipc",
        "vLLM opens the learner's memory on the one card that both have, or on the processor",
        lambda: ipc.by_ipc,
        in_one_memory=True,
        carries_adapters=False,
    ),
    PublisherTransport(
        "fetch",
        "servers by URL fetch it by its digest, so they need not see the run's files",
        lambda: fetch.by_fetch,
        carries_adapters=False,
        fetches=True,
    ),
)
