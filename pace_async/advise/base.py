"""Two seams: Engine, which serves an advisor's tokens, and Advisor, which answers a prompt."""

from dataclasses import dataclass
from typing import Literal, Protocol

from pace_async.errors import InfrastructureFault
from pace_async.events import AdvisorCall, Purpose, TokenSpan
from pace_async.frozen_values import fast_init


@fast_init
@dataclass(frozen=True, slots=True)
class Completion:
    """Sampled tokens (with the end token, if one was sampled), their log-probabilities in nats, and the weight versions
    that sampled them. `spans` cover [0, len(token_ids))."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    spans: tuple[TokenSpan, ...]
    finish: Literal["stop", "length"]


class PromptTooLong(InfrastructureFault):
    """A prompt of `tokens` tokens leaves no room for the answer in a context of `context` tokens, or exceeds a limit of
    `context` tokens. A service may not say its context, and `tokens` is then an estimate. A retry of the same prompt
    always fails."""

    def __init__(self, tokens: int, context: int | None) -> None:
        known = f"{tokens} tokens in a context of {context}"
        super().__init__("prompt_too_long", known if context is not None else f"about {tokens} tokens")
        self.tokens = tokens
        self.context = context


class Voided(InfrastructureFault):
    """The answer was sampled by weights that do not match their label. It must not be used."""

    def __init__(self, detail: str) -> None:
        super().__init__("voided", detail)


class Engine(Protocol):
    """Serves tokens. Every method raises InfrastructureFault if the service fails or its answer is invalid."""

    async def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of a prompt, with the tokens that begin a sequence for this model."""
        ...

    async def decode(self, token_ids: tuple[int, ...]) -> str:
        """Text of sampled tokens, without special tokens."""
        ...

    async def generate(
        self, prompt_ids: tuple[int, ...], *, max_tokens: int, temperature: float, seed: int
    ) -> Completion:
        """Sample one answer. Raises PromptTooLong if the context ends before `max_tokens` and before the answer."""
        ...


@fast_init
@dataclass(frozen=True, slots=True)
class Prompt:
    """One question of a rollout. `max_tokens` caps the answer, `max_prompt_tokens` the question (None: only the
    engine's context does). An engine samples with `temperature` and `seed`. `system` is what a model over the network
    is told before the question. An engine has it in front of the text."""

    lease: int
    purpose: Purpose
    text: str
    max_tokens: int
    temperature: float
    seed: int
    max_prompt_tokens: int | None = None
    system: str = ""

    @property
    def whole(self) -> str:
        """What an engine is given."""
        return f"{self.system}\n\n{self.text}" if self.system else self.text


class Advisor(Protocol):
    """Answers a rollout's prompts."""

    async def ask(self, prompt: Prompt) -> tuple[AdvisorCall, Literal["stop", "length"]]:
        """The call and how it ended. Its `seconds` are 0 where the caller measures them. Raises InfrastructureFault if
        the service fails, PromptTooLong, CandidateFault("unparsed") if the advisor refuses to answer, BudgetReached if
        the call does not fit the budget, GaveUp if no service answered within the patience."""
        ...
