"""The cluster of a configuration: one that is there, or one that is started on this machine."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from pace_async.config import EvaluationConfig
from pace_async.evaluate.on_ray.cluster import NO_LOG, Cluster, connected
from pace_async.evaluate.on_ray.head import own_head


def address_of(evaluation: EvaluationConfig) -> str:
    """HOST:PORT of the cluster, empty if one is to be started."""
    return evaluation.ray_address or os.environ.get("RAY_ADDRESS", "")


@asynccontextmanager
async def open_cluster(
    evaluation: EvaluationConfig, *, cpus: int, variables: Mapping[str, str], log: Path = NO_LOG
) -> AsyncGenerator[Cluster]:
    """A connection. A cluster that is started here has so many processors, gets these variables, and ends with the
    context. `log` gets what Ray prints. Raises UsageError if no cluster can be used at the address, and
    InfrastructureFault if none could be started."""
    address, limit = address_of(evaluation), evaluation.ray_timeout_s
    if address:
        async with connected(address, limit, {}, log) as cluster:
            yield cluster
        return
    async with (
        own_head(cpus, limit, variables) as head,
        connected(head.address, limit, head.environment, log) as cluster,
    ):
        yield cluster
