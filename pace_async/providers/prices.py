"""The cost of a call, and its upper bound. Pure.

The bound counts every byte of the prompt as a token (no tokenizer makes more tokens than bytes) and the longest answer
allowed, at the highest rate that the provider lists. A reservation is therefore never too small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TOKENS_PER_MESSAGE = 64
"""Upper bound on the tokens that a chat template adds to a message."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD per token: the usual rates of prompt and completion, and the highest rate of each."""

    prompt: float
    completion: float
    prompt_at_most: float
    completion_at_most: float

    @classmethod
    def per_million(cls, prompt: float, completion: float) -> "Price":
        """From USD per million tokens."""
        return cls(prompt / 1e6, completion / 1e6, prompt / 1e6, completion / 1e6)

    def in_words(self) -> str:
        """The price as text."""
        return f"{self.prompt * 1e6:g} USD in, {self.completion * 1e6:g} USD out per million tokens"

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Cost in USD."""
        return self.prompt * prompt_tokens + self.completion * completion_tokens

    def worst_case(self, messages: Sequence[Mapping[str, str]], max_tokens: int) -> float:
        """USD that a call cannot exceed."""
        prompt = sum(len(message["content"].encode("utf-8", "replace")) + TOKENS_PER_MESSAGE for message in messages)
        return self.prompt_at_most * prompt + self.completion_at_most * max_tokens


def listed_price(info: Mapping[str, object]) -> Price | None:
    """Price from litellm's record of a model. None if it lists no price for tokens."""
    prompt, completion = info.get("input_cost_per_token"), info.get("output_cost_per_token")
    if not isinstance(prompt, int | float) or not isinstance(completion, int | float):
        return None
    return Price(
        float(prompt),
        float(completion),
        _dearest(info, "input_cost_per_token", "cache_creation_input_token_cost"),
        _dearest(info, "output_cost_per_token", "output_cost_per_reasoning_token"),
    )


def _dearest(info: Mapping[str, object], *beginnings: str) -> float:
    rates = (value for name, value in info.items() if name.startswith(beginnings))
    return max(float(value) for value in rates if isinstance(value, int | float))
