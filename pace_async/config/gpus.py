"""How a setting names cards: by a number of them, or one by one."""

from typing import Annotated

from pydantic import AfterValidator, Field

IN_WORDS = (
    "null: the first card that is visible, or one of its own where the transport needs two. 1: the same. A list names "
    "it, by its place among the visible cards or by its UUID, such as [1] or [GPU-8f6e]. Several are not supported yet."
)


def _one(given: int | list[int | str] | None) -> int | list[int | str] | None:
    count = len(given) if isinstance(given, list) else given
    if count is not None and count != 1:
        raise ValueError("one card is supported, and more are not yet")
    return given


_Place = Annotated[int, Field(ge=0)]
_Uuid = Annotated[str, Field(pattern=r"^GPU-[0-9a-fA-F-]+$")]
Gpus = Annotated[Annotated[int, Field(ge=1)] | list[_Place | _Uuid] | None, AfterValidator(_one)]
"""None: chosen. A number: so many, chosen. A list: these, by place or UUID."""
