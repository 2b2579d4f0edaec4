"""The seam to whatever serves the advisor's tokens."""

from dataclasses import dataclass
from typing import Literal, Protocol

from pace_async.errors import InfrastructureFault
from pace_async.events import TokenSpan


@dataclass(frozen=True, slots=True)
class Completion:
    """Sampled tokens (the end token included, where one was sampled), their log-probabilities in nats, and the
    weight versions that sampled them; `spans` cover [0, len(token_ids))."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    spans: tuple[TokenSpan, ...]
    finish: Literal["stop", "length"]


class PromptTooLong(InfrastructureFault):
    """A prompt of `tokens` tokens, and a context of `context` that leaves no room for the answer, or a limit of so many
    tokens: the same prompt will never be answered."""

    def __init__(self, tokens: int, context: int) -> None:
        super().__init__("prompt_too_long", f"{tokens} tokens in a context of {context}")
        self.tokens = tokens
        self.context = context


class Voided(InfrastructureFault):
    """Sampled by weights that were found not to be what their label says: nothing may come of it."""

    def __init__(self, detail: str) -> None:
        super().__init__("voided", detail)


class Engine(Protocol):
    """Serves tokens. Every method raises InfrastructureFault when the service fails or answers nonsense."""

    async def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of a prompt, with whatever begins a sequence for this model."""
        ...

    async def decode(self, token_ids: tuple[int, ...]) -> str:
        """Text of sampled tokens, special tokens left out."""
        ...

    async def generate(
        self, prompt_ids: tuple[int, ...], *, max_tokens: int, temperature: float, seed: int
    ) -> Completion:
        """Sample one answer. Raises PromptTooLong where the context ends before `max_tokens` and before the answer."""
        ...
