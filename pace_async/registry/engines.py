"""Engines that serve the advisor (`--engine`).

The code of an engine is a context manager in which it serves: `runtime.children.engines.EngineFactory`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from pace_async.registry.base import Entry, Registry, load_code


@dataclass(frozen=True, slots=True)
class AdvisorEngine(Entry):
    """`check` names a function of the setting that raises UsageError if the engine cannot serve. Empty: it always can.
    `runs_already`: the run neither starts nor restarts it. `serves_adapters`: each version may be a LoRA adapter.
    `receives_gpu_to_gpu`: a transport from GPU to GPU may be chosen. `serves_given_type`: it computes in the number
    type of version 0's files, and not in a finer one. `divides`: the run may start it on several cards."""

    check: str = ""
    runs_already: bool = False
    serves_adapters: bool = False
    receives_gpu_to_gpu: bool = True
    serves_given_type: bool = False
    divides: bool = False

    def refuse_unless_there(self, engine: str) -> None:
        """Raises UsageError for an engine that cannot serve here. Uses no network."""
        if self.check:
            cast("Callable[[str], object]", load_code(self.check))(engine)


SERVERS = AdvisorEngine(
    "http://HOST:PORT",
    "servers that run already, separated by commas",
    "pace_async.runtime.children.engines:servers",
    check="pace_async.runtime.children.external:urls_of",
    runs_already=True,
)

ADVISOR_ENGINES = Registry(
    "engine",
    AdvisorEngine(
        "embedded",
        "a small server in the package",
        "pace_async.runtime.children.engines:embedded",
        receives_gpu_to_gpu=False,
    ),
    AdvisorEngine(
        "vllm",
        "vLLM, started by the run",
        "pace_async.runtime.children.engines:vllm",
        check="pace_async.runtime.children.engines:vllm_build",
        serves_adapters=True,
        serves_given_type=True,
        divides=True,
    ),
    SERVERS,
)

_UNKNOWN = AdvisorEngine("", "an engine that is not installed")


def engine_of(setting: str) -> AdvisorEngine:
    """The entry for `advisor.engine`, which may be URLs. For an engine that is not installed it is an entry without a
    name, so that the run can still be read."""
    return SERVERS if "://" in setting else ADVISOR_ENGINES.get(setting, _UNKNOWN)
