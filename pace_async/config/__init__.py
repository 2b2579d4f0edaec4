"""Every setting of a run: one model per room, one sentence per setting. `configure` reads their values."""

from collections.abc import Mapping
from typing import Annotated, Any, Self, cast

from pydantic import Field, model_validator

from pace_async.config.advisor import AdvisorConfig
from pace_async.config.evaluation import EvaluationConfig, RewardConfig
from pace_async.config.implementer import ImplementerConfig, RepairConfig
from pace_async.config.learner import LearnerConfig, StalenessConfig
from pace_async.config.limits import FaultsConfig, StopConfig
from pace_async.config.population import PopulationConfig
from pace_async.config.prompts import PromptsConfig
from pace_async.config.provider import ProviderConfig
from pace_async.config.search import SearchConfig
from pace_async.config.section import Section, stays
from pace_async.config.service import chosen_by_trainer, refuse_unless_at_service
from pace_async.config.tinker import TinkerConfig
from pace_async.registry.advisors import advisor_of
from pace_async.registry.engines import engine_of
from pace_async.registry.implementers import BY_ADVISOR, names_in
from pace_async.registry.objectives import trains
from pace_async.registry.staleness_policies import STALENESS_POLICIES
from pace_async.registry.transports import TRANSPORTS

__all__ = [
    "AdvisorConfig",
    "Config",
    "EvaluationConfig",
    "FaultsConfig",
    "ImplementerConfig",
    "LearnerConfig",
    "PopulationConfig",
    "PromptsConfig",
    "ProviderConfig",
    "RepairConfig",
    "RewardConfig",
    "SearchConfig",
    "StalenessConfig",
    "StopConfig",
    "TinkerConfig",
]


class Config(Section):
    """All settings of a run."""

    task: Annotated[str, stays("scores would not compare")] = Field(
        default="circle_packing", description="Task name or folder."
    )
    seed: Annotated[int, stays("every random draw of the run derives from it")] = Field(
        default=0, ge=0, description="Every random draw of the run derives from it."
    )
    baseline: Annotated[str | None, stays("it is compared with the run from its first candidate on")] = Field(
        default=None,
        description="Recorded runs that screen, summary and report show beside this one: a .json file, or a name in "
        "the package. The search does not depend on it.",
    )
    stop: StopConfig = StopConfig()
    population: PopulationConfig = PopulationConfig()
    search: SearchConfig = SearchConfig()
    staleness: StalenessConfig = StalenessConfig()
    advisor: AdvisorConfig = AdvisorConfig()
    implementer: ImplementerConfig = ImplementerConfig()
    prompts: PromptsConfig = PromptsConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    learner: LearnerConfig = LearnerConfig()
    tinker: TinkerConfig = TinkerConfig()
    reward: RewardConfig = RewardConfig()
    faults: FaultsConfig = FaultsConfig()

    @model_validator(mode="before")
    @classmethod
    def _decides_what_auto_means(cls, given: Any) -> Any:
        """The memory, the number of calls of the advisor and the implementer, where they are left to the run. An
        advisor that is not served learns nothing: `none` is its objective."""
        if not isinstance(given, Mapping):
            return given
        tree = cast("Mapping[str, Any]", given)
        kind = advisor_of(str(_stated(tree, "advisor", "model") or AdvisorConfig().model))
        end_to_end = _stated(tree, "advisor", "role") == "end_to_end"
        if not kind.served and not _states(tree, "learner", "objective"):
            tree = _with(tree, "learner", "objective", "none")
        if (_stated(tree, "search", "memory") or "auto") == "auto":
            alone = "island" if _stated(tree, "staleness", "mode") == "sync" else "run"
            tree = _with(tree, "search", "memory", alone if kind.asks_in_prose or end_to_end else "pool")
        if (kind.asked or end_to_end) and _stated(tree, "advisor", "calls") is None:
            tree = _with(tree, "advisor", "calls", "one")
        if end_to_end and _stated(tree, "implementer", "model") is None:
            tree = _with(tree, "implementer", "model", BY_ADVISOR.name)
        for (room, name), value in chosen_by_trainer(str(_stated(tree, "learner", "trainer") or "")).items():
            if not _states(tree, room, name):
                tree = _with(tree, room, name, value)
        return tree

    @model_validator(mode="after")
    def _one_author(self) -> Self:
        implementers = names_in(self.implementer.model)
        if not self.advisor.writes_code:
            if BY_ADVISOR.name in implementers:
                raise ValueError("implementer advisor comes with advisor.role end_to_end: set that, and leave it out")
            return self
        author = "with advisor.role end_to_end the advisor writes the code itself"
        if implementers != [BY_ADVISOR.name]:
            raise ValueError(f"{author}: leave --implementer {self.implementer.model} out")
        if self.advisor.calls != "one":
            raise ValueError(f"{author}, in one call: leave advisor.calls {self.advisor.calls} out")
        if self.search.remembers == "pool":
            raise ValueError(f"{author}, and is told what was tried: leave search.memory pool out")
        return self

    @model_validator(mode="after")
    def _asked_or_served(self) -> Self:
        kind = advisor_of(self.advisor.model)
        if kind.served:
            return self
        advisor = f"--advisor {self.advisor.model} {kind.why_untrained}"
        if trains(self.learner.objective):
            raise ValueError(
                f"{advisor} and cannot learn: leave --objective {self.learner.objective} out, or write none"
            )
        if self.advisor.engine != "embedded":
            raise ValueError(
                f"--engine {self.advisor.engine} serves a model of your own, and {advisor}: leave --engine out"
            )
        if self.advisor.max_prompt_tokens is not None:
            raise ValueError(f"advisor.max_prompt_tokens counts tokens of a served model, and {advisor}: leave it out")
        return self

    @model_validator(mode="after")
    def _trained_where_it_can_be(self) -> Self:
        refuse_unless_at_service(self.learner, self.advisor, self.tinker)
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.learner.cpu_ranks > 1 and (self.learner.gpus is not None or self.advisor.transport == "nccl"):
            setting = "learner.gpus" if self.learner.gpus is not None else "advisor.transport nccl"
            raise ValueError(f"learner.cpu_ranks divides a learner on the processor, and {setting} needs a card for it")
        if self.learner.k > self.learner.group_size:
            raise ValueError(
                f"learner.k ({self.learner.k}) must not exceed learner.group_size ({self.learner.group_size})"
            )
        if self.staleness.mode == "sync" and self.search.threads != self.learner.group_size:
            raise ValueError(
                f"sync needs as many threads as a group has rollouts: search.threads is {self.search.threads}, "
                f"learner.group_size is {self.learner.group_size}"
            )
        if self.staleness.mode == "sync" and not STALENESS_POLICIES[self.staleness.policy].allows_sync:
            raise ValueError(
                f"under sync nothing can become too old, so staleness.policy is pace and not {self.staleness.policy}"
            )
        engine, transport = engine_of(self.advisor.engine), TRANSPORTS[self.advisor.transport]
        if self.learner.lora_rank is not None and not engine.serves_adapters:
            raise ValueError(
                f"learner.lora_rank needs advisor.engine vllm, which serves adapters; it is {self.advisor.engine}"
            )
        if transport.gpu_to_gpu and not engine.receives_gpu_to_gpu:
            raise ValueError(f"advisor.transport {transport.name} needs vLLM, and advisor.engine is {engine.name}")
        if transport.in_one_memory:
            self._refuse_unless_in_one_memory()
        if transport.fetches and not engine.runs_already:
            raise ValueError(
                f"advisor.transport {transport.name} is for servers by URL, and advisor.engine is {self.advisor.engine}"
            )
        if self.advisor.fetch_from is not None and not transport.fetches:
            raise ValueError("advisor.fetch_from needs advisor.transport fetch")
        if self.advisor.ranks > 1:
            self._refuse_unless_divisible()
        if self.learner.lora_rank is not None and not transport.carries_adapters:
            raise ValueError(
                f"advisor.transport {transport.name} is for whole weights, and learner.lora_rank makes adapters"
            )
        return self

    def _refuse_unless_in_one_memory(self) -> None:
        requirement = f"advisor.transport {self.advisor.transport} is for one card of learner and engine"
        if not engine_of(self.advisor.engine).opens_memory:
            raise ValueError(f"{requirement}, with advisor.engine vllm; it is {self.advisor.engine}")
        for owner, ranks in (("learner", self.learner.ranks), ("engine", self.advisor.ranks)):
            if ranks > 1:
                raise ValueError(f"{requirement}, and the {owner} is divided among {ranks} ranks")
        if (argument := self._divides_engine()) is not None:
            raise ValueError(f"{requirement}: leave {argument} out of advisor.engine_arguments")

    def _divides_engine(self) -> str | None:
        """The argument of vLLM's server that divides it, if one is given. vLLM takes `_` for `-` in a name."""
        names = ("--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp", "--data-parallel-size", "-dp")
        arguments = self.advisor.engine_arguments
        return next((argument for argument in arguments if argument.partition("=")[0].replace("_", "-") in names), None)

    def _refuse_unless_divisible(self) -> None:
        cards = f"advisor.gpus divides the engine among {self.advisor.ranks} cards"
        if not engine_of(self.advisor.engine).divides:
            raise ValueError(f"{cards}, which only advisor.engine vllm can; it is {self.advisor.engine}")
        if self.learner.lora_rank is not None:
            raise ValueError(f"{cards}, and the adapters of learner.lora_rank need an engine on one card")
        if (argument := self._divides_engine()) is not None:
            raise ValueError(f"{cards}: leave {argument} out of advisor.engine_arguments")

    @property
    def bound(self) -> int:
        """The staleness bound in force."""
        return 0 if self.staleness.mode == "sync" else self.staleness.max_staleness


def _stated(tree: Mapping[str, Any], room: str, name: str) -> Any:
    """The value of a setting that is stated, None for one that is not."""
    section = tree.get(room)
    if isinstance(section, Section):
        return getattr(section, name) if name in section.model_fields_set else None
    return cast("Mapping[str, Any]", section).get(name) if isinstance(section, Mapping) else None


def _states(tree: Mapping[str, Any], room: str, name: str) -> bool:
    """Whether a setting is stated, if only as null."""
    section = tree.get(room)
    if isinstance(section, Section):
        return name in section.model_fields_set
    return isinstance(section, Mapping) and name in section


def _with(tree: Mapping[str, Any], room: str, name: str, value: object) -> Mapping[str, Any]:
    """The same with one more setting. What is no section stays, to be refused as such."""
    section = tree.get(room)
    if isinstance(section, Section):
        return {**tree, room: section.model_copy(update={name: value})}
    if section is not None and not isinstance(section, Mapping):
        return tree
    return {**tree, room: {**cast("Mapping[str, Any]", section or {}), name: value}}
