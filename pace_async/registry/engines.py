"""Engines that serve the advisor (`--engine`).

The code of an engine is a context manager in which it serves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.advise.engines import embedded, vllm_models
    from pace_async.runtime.children import engines, external, tinker
    from pace_async.runtime.children.engines import EngineFactory
else:
    embedded, vllm_models = later("pace_async.advise.engines", "embedded", "vllm_models")
    engines, external, tinker = later("pace_async.runtime.children", "engines", "external", "tinker")


@dataclass(frozen=True, slots=True)
class AdvisorEngine(Entry["EngineFactory"]):
    """`check` gives a function of the setting that raises UsageError if the engine cannot serve. None: it always can.
    `knows` gives a function of a model's folder and the server's arguments that returns why the engine cannot serve
    this model, as a clause, or None. Without it nothing is known.
    `runs_already`: the run neither starts nor restarts it. `serves_adapters`: each version may be a LoRA adapter.
    `computes_anywhere`: where no card can be used it computes on the processor.
    `receives_gpu_to_gpu`: a transport from GPU to GPU may be chosen. `opens_memory`: so may one in which it opens the
    learner's memory. `serves_given_type`: it computes in the number
    type of version 0's files, and not in a finer one. `divides`: the run may start it on several cards."""

    check: Callable[[], Callable[[str], object]] | None = None
    knows: Callable[[], Callable[[Path, Sequence[str]], str | None]] | None = None
    runs_already: bool = False
    serves_adapters: bool = False
    computes_anywhere: bool = False
    receives_gpu_to_gpu: bool = True
    opens_memory: bool = False
    serves_given_type: bool = False
    divides: bool = False

    def refuse_unless_there(self, engine: str) -> None:
        """Raises UsageError for an engine that cannot serve here. Uses no network."""
        if self.check is not None:
            self.check()(engine)

    def why_unknown(self, model: Path, arguments: Sequence[str]) -> str | None:
        """Why the engine cannot serve the model in this folder, as a clause. None if it can, or if it is not known."""
        return None if self.knows is None else self.knows()(model, arguments)


SERVERS = AdvisorEngine(
    "http://HOST:PORT",
    "servers that run already, separated by commas",
    lambda: engines.servers,
    check=lambda: external.urls_of,
    runs_already=True,
)

ADVISOR_ENGINES = Registry(
    "engine",
    AdvisorEngine(
        "embedded",
        "a small server in the package",
        lambda: engines.embedded,
        knows=lambda: embedded.why_unknown,
        computes_anywhere=True,
        receives_gpu_to_gpu=False,
    ),
    AdvisorEngine(
        "vllm",
        "vLLM, started by the run",
        lambda: engines.vllm,
        check=lambda: engines.vllm_build,
        knows=lambda: vllm_models.why_unknown,
        serves_adapters=True,
        opens_memory=True,
        serves_given_type=True,
        divides=True,
    ),
    AdvisorEngine(
        "tinker",
        "the sampling clients of learner.trainer tinker, which chooses it",
        lambda: tinker.engine,
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
