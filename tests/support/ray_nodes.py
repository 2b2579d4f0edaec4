"""Ray clusters for tests. `scripts.benchmarks.ray_machines` makes them."""

import atexit
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec

from scripts.benchmarks.ray_machines import Machines as RayNodes
from scripts.benchmarks.ray_machines import cluster_of
from tests.support.needed import skipped_without

__all__ = ["NEEDS_RAY", "RUNNING", "RayNodes", "ray_nodes", "shared_node"]
NEEDS_RAY = skipped_without(
    "RAY",
    find_spec("ray") is not None and sys.platform == "linux",
    "Ray is not installed (pip install '.[ray]')",
)
RUNNING: set[int] = set()
"""For each cluster of this process that runs, the process under which its others are. Some serve many tests."""
DEAD_AFTER_S = 10.0
"""A dead node is seen within some seconds, and a slow one is not dead."""


@cache
def shared_node() -> str:
    """The address of a cluster of one node, for all tests of this process. It ends with the process."""
    stack = ExitStack()
    cluster = stack.enter_context(ray_nodes(2))
    atexit.register(stack.close)
    return cluster.address


@contextmanager
def ray_nodes(*cpus: int, port: int | None = None, redis: str = "") -> Generator[RayNodes]:
    """See `cluster_of`."""
    with cluster_of(*cpus, port=port, dead_after_s=DEAD_AFTER_S, redis=redis) as cluster:
        RUNNING.add(cluster.process.pid)
        try:
            yield cluster
        finally:
            RUNNING.discard(cluster.process.pid)
