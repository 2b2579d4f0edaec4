"""How models are asked over the network: the settings that implementer and advisor share."""

import json
import re
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from pace_async.config.section import Section, ServiceUrl


class ProviderConfig(Section):
    """Address, arguments, deadlines and prices of models behind litellm."""

    model: str
    api_base: ServiceUrl | None = Field(
        default=None, description="Base URL of the models' API, if it is not the usual one."
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Further arguments of each call, such as temperature or reasoning_effort. One that a model does "
        "not take is refused, or left out with drop_params: true among them.",
    )
    timeout_s: float = Field(default=180.0, gt=0, description="Deadline of one call, in seconds.")
    deadline_s: float = Field(default=300.0, gt=0, description="Deadline of one answer over all its calls, in seconds.")
    price_per_million_in: float | None = Field(
        default=None, ge=0, description="USD per million prompt tokens, in place of the listed price."
    )
    price_per_million_out: float | None = Field(
        default=None, ge=0, description="USD per million completion tokens, in place of the listed price."
    )

    @property
    def longest_answer(self) -> int:
        """Tokens of the longest answer that a call asks for."""
        raise NotImplementedError

    @field_validator("options")
    @classmethod
    def _no_secret(cls, options: dict[str, Any]) -> dict[str, Any]:
        for name in options:
            if re.search("key|token$|secret|password|header", name, re.IGNORECASE):
                raise ValueError(f"{name} may be a secret and would be stored: put the key into the environment")
            if name in ("model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "timeout"):
                raise ValueError(f"{name} cannot be set here")
        try:
            json.dumps(options, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError("only texts, finite numbers, true, false, null, lists and mappings can be sent") from None
        return options

    @model_validator(mode="after")
    def _both_prices(self) -> Self:
        if (self.price_per_million_in is None) != (self.price_per_million_out is None):
            raise ValueError("price_per_million_in and price_per_million_out belong together: give both")
        return self
