"""The seam to the inference engine that serves the advisor."""

from dataclasses import dataclass
from typing import Literal, Protocol

from pace_async.errors import InfrastructureFault
from pace_async.events import TokenSpan


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
    `context` tokens. A retry of the same prompt always fails."""

    def __init__(self, tokens: int, context: int) -> None:
        super().__init__("prompt_too_long", f"{tokens} tokens in a context of {context}")
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
