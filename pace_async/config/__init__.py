"""Every setting of a run, one model per room, each with a sentence. Where their values come from: `configure`."""

from typing import Self

from pydantic import Field, model_validator

from pace_async.config.advisor import Advisor
from pace_async.config.evaluation import Evaluation, Reward
from pace_async.config.implementer import ImplementerConfig, Repair
from pace_async.config.learner import LearnerConfig, Staleness
from pace_async.config.limits import Faults, Stop
from pace_async.config.population import Population
from pace_async.config.room import Room
from pace_async.config.search import Search

__all__ = [
    "Advisor",
    "Config",
    "Evaluation",
    "Faults",
    "ImplementerConfig",
    "LearnerConfig",
    "Population",
    "Repair",
    "Reward",
    "Search",
    "Staleness",
    "Stop",
]


class Config(Room):
    """A run, wholly."""

    task: str = Field(default="circle_packing", description="Task name or folder.")
    seed: int = Field(default=0, ge=0, description="Every random draw of the run derives from it.")
    stop: Stop = Stop()
    population: Population = Population()
    search: Search = Search()
    staleness: Staleness = Staleness()
    advisor: Advisor = Advisor()
    implementer: ImplementerConfig = ImplementerConfig()
    evaluation: Evaluation = Evaluation()
    learner: LearnerConfig = LearnerConfig()
    reward: Reward = Reward()
    faults: Faults = Faults()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.learner.k > self.learner.group_size:
            raise ValueError(
                f"learner.k ({self.learner.k}) must not exceed learner.group_size ({self.learner.group_size})"
            )
        if self.staleness.mode == "sync" and self.search.threads != self.learner.group_size:
            raise ValueError(
                f"sync needs as many threads as a group has rollouts: search.threads is {self.search.threads}, "
                f"learner.group_size is {self.learner.group_size}"
            )
        if self.staleness.mode == "sync" and self.staleness.policy != "pace":
            raise ValueError(
                f"under sync nothing can become too old, so staleness.policy is pace and not {self.staleness.policy}"
            )
        if self.learner.lora_rank is not None and self.advisor.engine != "vllm":
            raise ValueError(
                f"learner.lora_rank needs advisor.engine vllm, which serves adapters; it is {self.advisor.engine}"
            )
        if self.advisor.transport == "nccl":
            if self.advisor.engine == "embedded":
                raise ValueError("advisor.transport nccl needs vLLM, and advisor.engine is embedded")
            if self.learner.lora_rank is not None:
                raise ValueError("advisor.transport nccl is for whole weights, and learner.lora_rank makes adapters")
        return self

    @property
    def bound(self) -> int:
        """The staleness bound in force."""
        return 0 if self.staleness.mode == "sync" else self.staleness.max_staleness
