"""What turns experiments into code."""

import json
import re
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from pace_async.config.section import Section
from pace_async.registry.implementers import IMPLEMENTERS


class RepairConfig(Section):
    """How often a model is shown what is wrong with its program and asked again."""

    compile_tries: int = Field(
        default=3,
        ge=1,
        description="Answers that a model may give until one is a program that compiles; 1: no repair.",
    )
    evaluate_tries: int = Field(
        default=2,
        ge=1,
        description="Programs of one experiment that may be evaluated if they fail by an error in the code; 1: no "
        "repair.",
    )


class ImplementerConfig(Section):
    """What turns an experiment into code."""

    model: str = Field(
        default="catalog",
        description=f"What writes the code. {IMPLEMENTERS.described()} Or several: a,b or a=3,b=1.",
    )
    choice: Literal["weights", "bandit"] = Field(
        default="weights",
        description="How one of several models is chosen for a candidate. weights: drawn by weight. bandit: by each "
        "model's gains with experiments of this kind, in relation to its cost; weights then have no effect.",
    )
    cost_weight: float = Field(
        default=1.0, ge=0, le=1, description="How much cost counts for the bandit. 1: gain per USD. 0: gain alone."
    )
    api_base: str | None = Field(default=None, description="Base URL of the models' API, if it is not the usual one.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="Further arguments of each call, such as temperature or reasoning_effort."
    )
    max_tokens: int = Field(default=8192, ge=16, description="Longest answer, in tokens, reasoning included.")
    timeout_s: float = Field(default=180.0, gt=0, description="Deadline of one call, in seconds.")
    deadline_s: float = Field(default=300.0, gt=0, description="Deadline of one answer over all its calls, in seconds.")
    repair: RepairConfig = RepairConfig()
    price_per_million_in: float | None = Field(
        default=None, ge=0, description="USD per million prompt tokens of a model whose price is not known."
    )
    price_per_million_out: float | None = Field(
        default=None, ge=0, description="USD per million completion tokens of a model whose price is not known."
    )

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

    @field_validator("api_base")
    @classmethod
    def _no_password(cls, url: str | None) -> str | None:
        if url is not None and (not re.match(r"https?://", url) or "@" in url or "?" in url):
            raise ValueError("must be http(s)://HOST/PATH, without a password or a query")
        return url

    @model_validator(mode="after")
    def _both_prices(self) -> Self:
        if (self.price_per_million_in is None) != (self.price_per_million_out is None):
            raise ValueError("price_per_million_in and price_per_million_out belong together: give both")
        return self
