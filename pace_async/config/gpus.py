"""How a setting names cards: by a number of them, or one by one."""

from typing import Annotated

from pydantic import AfterValidator, Field

ONE_IN_WORDS = (
    "null: the first card that is visible, or one of its own where the transport needs two. 1: the same. A list names "
    "it, by its place among the visible cards or by its UUID, such as [1] or [GPU-8f6e]. A list may name only one."
)
SEVERAL_IN_WORDS = (
    "null: the first card that is visible, or one of its own where the transport needs two. A number: so many. A list "
    "names them, by their places among the visible cards or by their UUIDs, such as [1, 2] or [GPU-8f6e]. On several, "
    "each card holds a part of the weights and works on a part of each group."
)


def _one(given: int | list[int | str] | None) -> int | list[int | str] | None:
    count = len(given) if isinstance(given, list) else given
    if count is not None and count != 1:
        raise ValueError("one card is supported")
    return given


def _each_once(given: int | list[int | str] | None) -> int | list[int | str] | None:
    if isinstance(given, list) and (not given or len(set(given)) < len(given)):
        raise ValueError("a list names at least one card, and each once")
    return given


_Place = Annotated[int, Field(ge=0)]
_Uuid = Annotated[str, Field(pattern=r"^GPU-[0-9a-fA-F-]+$")]
_Given = Annotated[int, Field(ge=1)] | list[_Place | _Uuid] | None
OneGpu = Annotated[_Given, AfterValidator(_one)]
Gpus = Annotated[_Given, AfterValidator(_each_once)]
"""None: chosen. A number: so many, chosen. A list: these, by place or UUID."""
