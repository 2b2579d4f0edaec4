"""The service that trains and serves the advisor, for `learner.trainer: tinker`."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from pace_async.config.section import OnResume, Section, ServiceUrl, stays


class TinkerConfig(Section):
    """The service that trains and serves the advisor, with learner.trainer tinker. Its key is in TINKER_API_KEY."""

    on_resume: ClassVar[OnResume] = stays("the versions trained so far are at this service")

    base_model: str | None = Field(
        default=None,
        description="The advisor's name at the service, by default that of advisor.model, which also says where the "
        "tokenizer is.",
    )
    url: ServiceUrl | None = Field(
        default=None,
        description="Address of another server of the same API, such as SkyRL's; by default the Tinker API.",
    )
    reduction: Literal["sum", "mean"] = Field(
        default="sum",
        description="How the service adds up the losses of tokens. sum: it adds them, as the Tinker API does. mean: it "
        "takes the mean over each call and over the calls, as SkyRL 0.3.0 does. The step is the same.",
    )
    price_per_million_prompt: float | None = Field(
        default=None,
        ge=0,
        description="USD per million tokens of questions, which the service reads before it samples.",
    )
    price_per_million_sampled: float | None = Field(default=None, ge=0, description="USD per million sampled tokens.")
    price_per_million_trained: float | None = Field(
        default=None,
        ge=0,
        description="USD per million tokens of a training step. Each group is read once before its step, to have its "
        "logprobs, and those tokens count at this price too.",
    )

    @model_validator(mode="after")
    def _all_prices(self) -> Self:
        if len({price is None for price in self.prices}) > 1:
            raise ValueError("the three prices belong together: give all of them")
        return self

    @property
    def prices(self) -> tuple[float | None, float | None, float | None]:
        """USD per million tokens of questions, sampled tokens and trained tokens."""
        return self.price_per_million_prompt, self.price_per_million_sampled, self.price_per_million_trained
