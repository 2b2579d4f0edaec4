"""Plugin that vLLM loads in each of its processes (entry point `pace` of `vllm.general_plugins`).

It registers the weight-transfer backend `pace_file`. In servers that the runtime started, it also makes each process
end with its parent. Imports nothing heavy.
"""

import contextlib
import os
from importlib import import_module
from typing import Any, cast

from pace_async.children import die_with_parent

BACKEND = "pace_file"
STARTED_BY_PACE = "PACE_STARTED_THIS_SERVER"


def register() -> None:
    """vLLM may call this more than once in one process."""
    if STARTED_BY_PACE in os.environ:
        die_with_parent()  # otherwise vLLM's engine and workers outlive a killed server
    factory = cast("Any", import_module("vllm.distributed.weight_transfer.factory")).WeightTransferEngineFactory
    with contextlib.suppress(ValueError):  # it is registered already
        factory.register_engine(BACKEND, "pace_async.advise.engines.vllm_file", "FileTransfer")
