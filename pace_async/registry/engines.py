"""Engines that serve the advisor (`--engine`).

The code of an engine is a context manager in which it serves: `runtime.children.engines.EngineFactory`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pace_async.registry.base import Entry, Registry, load_code


@dataclass(frozen=True, slots=True)
class AdvisorEngine(Entry):
    """`check` names a function of the setting that raises UsageError if the engine cannot serve. Empty: it always can.
    `knows` names a function of a model's folder and the server's arguments that returns why the engine cannot serve
    this model, as a clause, or None. Empty: nothing is known.
    `runs_already`: the run neither starts nor restarts it. `serves_adapters`: each version may be a LoRA adapter.
    `computes_anywhere`: where no card can be used it computes on the processor.
    `receives_gpu_to_gpu`: a transport from GPU to GPU may be chosen. `opens_memory`: so may one in which it opens the
    learner's memory. `serves_given_type`: it computes in the number
    type of version 0's files, and not in a finer one. `divides`: the run may start it on several cards."""

    check: str = ""
    knows: str = ""
    runs_already: bool = False
    serves_adapters: bool = False
    computes_anywhere: bool = False
    receives_gpu_to_gpu: bool = True
    opens_memory: bool = False
    serves_given_type: bool = False
    divides: bool = False

    def refuse_unless_there(self, engine: str) -> None:
        """Raises UsageError for an engine that cannot serve here. Uses no network."""
        if self.check:
            cast("Callable[[str], object]", load_code(self.check))(engine)

    def why_unknown(self, model: Path, arguments: Sequence[str]) -> str | None:
        """Why the engine cannot serve the model in this folder, as a clause. None if it can, or if it is not known."""
        if not self.knows:
            return None
        return cast("Callable[[Path, Sequence[str]], str | None]", load_code(self.knows))(model, arguments)


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
        knows="pace_async.advise.engines.embedded:why_unknown",
        computes_anywhere=True,
        receives_gpu_to_gpu=False,
    ),
    AdvisorEngine(
        "vllm",
        "vLLM, started by the run",
        "pace_async.runtime.children.engines:vllm",
        check="pace_async.runtime.children.engines:vllm_build",
        knows="pace_async.advise.engines.vllm_models:why_unknown",
        serves_adapters=True,
        opens_memory=True,
        serves_given_type=True,
        divides=True,
    ),
    AdvisorEngine(
        "tinker",
        "the sampling clients of learner.trainer tinker, which chooses it",
        "pace_async.runtime.children.tinker:engine",
        runs_already=True,
        serves_adapters=True,
        receives_gpu_to_gpu=False,
    ),
    SERVERS,
)

_UNKNOWN = AdvisorEngine("", "an engine that is not installed")


def engine_of(setting: str) -> AdvisorEngine:
    """The entry for `advisor.engine`, which may be URLs. For an engine that is not installed it is an entry without a
    name, so that the run can still be read."""
    return SERVERS if "://" in setting else ADVISOR_ENGINES.get(setting, _UNKNOWN)
