"""The model that decides what to try, and what serves it."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from pace_async.config.choice import OneOf
from pace_async.config.gpus import IN_WORDS, Gpus, number_of
from pace_async.config.provider import ProviderConfig
from pace_async.config.section import MAY_CHANGE, OnResume, stays
from pace_async.registry.advisors import ADVISORS, advisor_of
from pace_async.registry.engines import ADVISOR_ENGINES, engine_of
from pace_async.registry.transports import TRANSPORTS

Call = Literal["propose", "assess", "select"]
LONGEST, LONGEST_OF_CHAT, LONGEST_OF_ONE, LONGEST_OF_THINKING = 256, 512, 1536, 4096
"""Tokens of an answer. LONGEST_OF_ONE is of a chat model with one call, which writes a specification. The last includes
thinking, and is for any model that is asked over the network or writes the code itself too."""

END_OF_THINKING = "</think>"


class AdvisorConfig(ProviderConfig):
    """The model that decides what to try. An address, arguments, a deadline of an answer and prices are for api:MODEL
    only."""

    on_resume: ClassVar[OnResume] = MAY_CHANGE

    model: Annotated[str, stays("the versions trained so far are of this model")] = Field(
        default="auto", description=f"What decides what to try. {ADVISORS.described()}"
    )
    start_from: Annotated[str | None, stays("version 0 has been taken over")] = Field(
        default=None,
        description="RUN or RUN@VERSION: version 0 is what that run trained, by default its newest version. The "
        "advisor must be the same. A run's own settings name the digest of the weights too.",
    )
    start_optimizer: Annotated[Literal["fresh", "kept"], stays("version 0 has been taken over")] = Field(
        default="fresh",
        description="With start_from, whether the optimizer begins anew, with its warm-up, or goes on with the moments "
        "that the other run kept beside that version, which only its newest checkpoints have.",
    )
    role: Annotated[Literal["advisor", "end_to_end"], stays("advice and edits would share a group")] = Field(
        default="advisor",
        description="What it writes. advisor: an experiment, which the implementer carries out. end_to_end: the code "
        "itself, in one call whose answer is the edit, without an implementer and without repairs. Not for an advisor "
        "of the package.",
    )
    engine: str = Field(default="embedded", description=f"What serves it. {ADVISOR_ENGINES.described()}")
    transport: Annotated[str, OneOf(TRANSPORTS)] = Field(
        default="file", description=f"How a new version gets to vLLM. {TRANSPORTS.described()}"
    )
    fetch_from: str | None = Field(
        default=None,
        description="Where servers fetch versions, with transport fetch. http://HOST:PORT: the run serves them there, "
        "at this address of its machine. s3://BUCKET/FOLDER or file:///FOLDER: the run copies each version there. "
        "null: the run serves them on a free port of the address from which it reaches a server.",
    )
    push_timeout_s: float = Field(
        default=60.0,
        gt=0,
        description="Deadline of each phase of a push, in seconds. Each GB of a version adds 20.",
    )
    temperature: Annotated[float, stays("what is recorded was sampled at it")] = Field(
        default=1.0, gt=0, description="Sampling temperature; the learner assumes the same."
    )
    max_tokens: int | None = Field(
        default=None,
        ge=8,
        description=f"Longest answer, in tokens, thinking included. By default {LONGEST}, {LONGEST_OF_CHAT} for a "
        f"model with a chat template, and {LONGEST_OF_THINKING} for api:MODEL and for a model that thinks or writes "
        "the code itself.",
    )
    max_tokens_by_call: dict[Call, int] = Field(
        default_factory=dict[Call, int],
        description="Longest answer of one kind of call, if it is another: a mapping from propose, assess or select to "
        "tokens.",
    )
    chat_template: bool | None = Field(
        default=None,
        description="Ask through the chat template in the model's folder; by default if it has one.",
    )
    thinking: bool | None = Field(
        default=None,
        description="The template's switch for thinking (enable_thinking); by default as the template has it.",
    )
    end_of_thinking: str = Field(
        default=END_OF_THINKING,
        min_length=1,
        description="What an answer has up to the last such mark is thinking: it is not parsed, and it is trained.",
    )
    calls: Annotated[Literal["three", "one"], stays("rollouts of one call and of three would share a group")] = Field(
        default="three",
        description="Calls of a rollout. three: propose ideas, assess which are new, select an experiment, as in "
        "the paper. one: all at once, so that the reward is that of all its words: one to three ideas, a choice and a "
        "specification (with search.memory pool one idea and its experiment). Not for --advisor tiny, which was not "
        "trained on it. api:MODEL is asked once unless this says three.",
    )
    first_word: Literal["site", "mechanism"] = Field(
        default="site",
        description="Which word of a mechanism at a site the question for ideas names first, to an advisor that reads "
        "the catalogue. The advisor's first choice is among these words.",
    )
    requests: int | None = Field(
        default=None, ge=1, description="Calls of api:MODEL in flight at once; by default one for each search thread."
    )
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
        description="vLLM's key-value cache, in GiB, on each of its cards; by default 1 on a CPU and the rest of "
        "gpu_memory on a GPU.",
    )
    gpus: Gpus = Field(
        default=None,
        description=f"The cards of an engine that the run starts. {IN_WORDS} (tensor parallel), which only vLLM can.",
    )
    gpu_memory: float = Field(default=0.9, gt=0, le=1, description="vLLM's share of the memory of each of its cards.")
    probe_limit: float | None = Field(
        default=None,
        gt=0,
        description="Limit on k3 between engine and learner, on a fixed prompt after each push. Above it the push has "
        "failed. null: measured at the first push of a process, and between 0.001 and 0.01.",
    )
    engine_arguments: list[str] = Field(
        default_factory=list[str], description="Further arguments of vLLM's server, such as --max-model-len=4096."
    )
    float32_head: Annotated[bool, stays("what is recorded was sampled with it")] = Field(
        default=False,
        description="Logits are not rounded to the number type of the weights: vLLM's and, with precision bf16, the "
        "learner's. They agree better.",
    )

    @field_validator("fetch_from")
    @classmethod
    def _a_place(cls, given: str | None) -> str | None:
        if given is not None and not re.fullmatch(r"http://[^/?#@\s]+:\d+|(s3|file)://[^?#@\s]+", given):
            raise ValueError(f"{given!r} is neither http://HOST:PORT nor s3://BUCKET/FOLDER nor file:///FOLDER")
        return given

    @field_validator("max_tokens_by_call")
    @classmethod
    def _long_enough(cls, longest: dict[Call, int]) -> dict[Call, int]:
        if any(tokens < 8 for tokens in longest.values()):
            raise ValueError("an answer needs at least 8 tokens")
        return longest

    @model_validator(mode="after")
    def _one_head(self) -> Self:
        if self.float32_head and any(argument.startswith("--hf-overrides") for argument in self.engine_arguments):
            raise ValueError("engine_arguments and float32_head both set vLLM's --hf-overrides: leave one of them out")
        return self

    @property
    def writes_code(self) -> bool:
        """Whether its answer is the edit."""
        return self.role == "end_to_end"

    @property
    def ranks(self) -> int:
        """Among how many cards an engine that the run starts is divided."""
        return number_of(self.gpus)

    @property
    def served_by(self) -> str:
        """The engine that serves it, or how it is asked, in words."""
        kind = advisor_of(self.model)
        if not kind.has_model:
            return "no engine"
        return "its API" if kind.asked else self.engine

    @property
    def serves_given_type(self) -> bool:
        """Whether the engine computes in the number type of version 0's files, as far as the run chooses it."""
        chosen = any(argument.startswith("--dtype") for argument in self.engine_arguments)
        return engine_of(self.engine).serves_given_type and not chosen

    def longest(self, purpose: Call) -> int:
        """Tokens that an answer to a call of this kind may have."""
        short = advisor_of(self.model).served and not self.writes_code
        usual = LONGEST if short else LONGEST_OF_THINKING
        return self.max_tokens_by_call.get(purpose, usual if self.max_tokens is None else self.max_tokens)

    @property
    def longest_answer(self) -> int:
        return max(self.longest(purpose) for purpose in get_args(Call))

    def of_calls(self) -> "AdvisorConfig":
        """These settings with the temperature among the arguments of each call, unless they name one."""
        arguments: Mapping[str, Any] = {"temperature": self.temperature, **self.options}
        return self.model_copy(update={"options": dict(arguments)})
