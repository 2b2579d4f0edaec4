"""Publisher transports (`advisor.transport`): how a version gets from the learner to an engine.

The code of a transport makes a publisher to one engine: `publish.base.PublisherFactory`. Adapters have a publisher of
their own, whatever the transport.
"""

from dataclasses import dataclass

from pace_async.registry.base import Entry, Registry


@dataclass(frozen=True, slots=True)
class PublisherTransport(Entry):
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
    PublisherTransport("file", "the engine reads the files that the learner wrote", "pace_async.publish.file:by_file"),
    PublisherTransport(
        "nccl",
        "the learner sends it from GPU to GPU while the server generates; needs vLLM on other GPUs of this machine",
        "pace_async.publish.nccl:by_nccl",
        gpu_to_gpu=True,
        carries_adapters=False,
    ),
    PublisherTransport(
        "ipc",
        "vLLM opens the learner's memory on the one card that both have, or on the processor",
        "pace_async.publish.ipc:by_ipc",
        in_one_memory=True,
        carries_adapters=False,
    ),
    PublisherTransport(
        "fetch",
        "servers by URL fetch it by its digest, so they need not see the run's files",
        "pace_async.publish.fetch:by_fetch",
        carries_adapters=False,
        fetches=True,
    ),
)
