"""What language models are asked."""

from typing import ClassVar, Literal

from pydantic import Field

from pace_async.config.section import MAY_CHANGE, OnResume, Section


class PromptsConfig(Section):
    """What language models are asked. Not for the advisors of the package, which have a wording of their own."""

    on_resume: ClassVar[OnResume] = MAY_CHANGE

    set: Literal["full", "paper"] = Field(
        default="full",
        description="Templates of the package. full: all that a model may know. paper: the sections of PACEvolve.",
    )
    folder: str | None = Field(
        default=None,
        description="A folder of templates of your own; each replaces the one of its name. `pace prompts init` makes "
        "it. A task may have such a folder too, named prompts.",
    )
    tokens: int = Field(
        default=16000,
        ge=500,
        description="Longest question, in tokens as estimated from characters. What does not fit is left out by rank, "
        "the parent's program last. The lists of results and ideas have shares of it.",
    )
