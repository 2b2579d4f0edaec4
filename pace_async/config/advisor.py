"""The model that decides what to try, and what serves it."""

from typing import Annotated

from pydantic import Field

from pace_async.config.choice import OneOf
from pace_async.config.section import Section
from pace_async.registry.engines import ADVISOR_ENGINES
from pace_async.registry.transports import TRANSPORTS


class AdvisorConfig(Section):
    """The model that decides what to try."""

    model: str = Field(
        default="tiny",
        description="A model directory, or one in the package: tiny, or reader, which "
        "reads the task's catalogue in its prompt.",
    )
    engine: str = Field(default="embedded", description=f"What serves it. {ADVISOR_ENGINES.described()}")
    transport: Annotated[str, OneOf(TRANSPORTS)] = Field(
        default="file", description=f"How a new version gets to vLLM. {TRANSPORTS.described()}"
    )
    temperature: float = Field(default=1.0, gt=0, description="Sampling temperature; the learner assumes the same.")
    max_tokens: int = Field(default=256, ge=8, description="Longest answer, in tokens.")
    max_prompt_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Longest prompt, in tokens of the advisor; by default the room in the engine's context. Parts that "
        "do not fit are left out, with a note in the prompt.",
    )
    timeout_s: float = Field(default=120.0, gt=0, description="Deadline of one advisor call, in seconds.")
    engine_start_s: float = Field(default=300.0, gt=0, description="Deadline for the engine's start, in seconds.")
    threads: int = Field(default=1, ge=1, description="Threads of one tensor operation of an engine on a CPU.")
    kv_cache_gib: float | None = Field(
        default=None,
        gt=0,
        description="vLLM's key-value cache, in GiB; by default 1 on a CPU and the rest of gpu_memory on a GPU.",
    )
    gpu_memory: float = Field(default=0.9, gt=0, le=1, description="vLLM's share of the GPU's memory.")
    probe_limit: float = Field(
        default=5e-3,
        gt=0,
        description="Limit on k3 between engine and learner, on a fixed prompt after each push. Above it the push has "
        "failed. Raise it for an engine with low numeric precision.",
    )
    engine_arguments: list[str] = Field(
        default_factory=list[str], description="Further arguments of vLLM's server, such as --max-model-len=4096."
    )
