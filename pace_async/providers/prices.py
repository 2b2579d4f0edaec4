"""The cost of a call, and its upper bound. Pure.

The bound counts every byte of the prompt as a token (no tokenizer makes more tokens than bytes) and the longest answer
allowed, at the highest rate that the provider lists, and the highest listed fee of a request or a search. A
reservation is therefore never too small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

TOKENS_PER_MESSAGE = 64
"""Upper bound on the tokens that a chat template adds to a message."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD per token: the usual rates of prompt and completion, and the highest rate of each. `fees_at_most` are USD of
    one call beside its tokens."""

    prompt: float
    completion: float
    prompt_at_most: float
    completion_at_most: float
    fees_at_most: float = 0.0

    @property
    def is_free(self) -> bool:
        """Whether the prompt or the answer costs nothing, as far as the price says."""
        return self.prompt_at_most == 0 or self.completion_at_most == 0

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
        return self.prompt_at_most * prompt + self.completion_at_most * max_tokens + self.fees_at_most


def listed_price(info: Mapping[str, object], searches: bool = False) -> Price | None:
    """Price from litellm's record of a model. None if it lists no price for tokens. `searches`: a call may search the
    web, which has a fee of its own."""
    prompt, completion = info.get("input_cost_per_token"), info.get("output_cost_per_token")
    if not isinstance(prompt, int | float) or not isinstance(completion, int | float):
        return None
    return Price(
        float(prompt),
        float(completion),
        _dearest(info, "input_cost_per_token", "cache_creation_input_token_cost"),
        _dearest(info, "output_cost_per_token", "output_cost_per_reasoning_token"),
        _dearest(info, "input_cost_per_request") + (_search_fee(info) if searches else 0.0),
    )


def _dearest(info: Mapping[str, object], *beginnings: str) -> float:
    rates = (value for name, value in info.items() if name.startswith(beginnings))
    return max((float(value) for value in rates if isinstance(value, int | float)), default=0.0)


def _search_fee(info: Mapping[str, object]) -> float:
    sizes = info.get("search_context_cost_per_query")
    return _dearest(cast("Mapping[str, object]", sizes), "") if isinstance(sizes, Mapping) else 0.0
