"""How a setting names cards: by a number of them, or one by one."""

from typing import Annotated

from pydantic import AfterValidator, Field

IN_WORDS = (
    "null: the first card that is visible, or one of its own where the transport needs two. A number: so many. A list "
    "names them, by their places among the visible cards or by their UUIDs, such as [1, 2] or [GPU-8f6e]. On several, "
    "each card holds a part of the weights"
)


def number_of(setting: int | list[int | str] | None) -> int:
    """How many cards a setting asks for."""
    return len(setting) if isinstance(setting, list) else setting or 1


def _each_once(setting: int | list[int | str] | None) -> int | list[int | str] | None:
    if isinstance(setting, list) and (not setting or len(set(setting)) < len(setting)):
        raise ValueError("a list names at least one card, and each once")
    return setting


_Place = Annotated[int, Field(ge=0)]
_Uuid = Annotated[str, Field(pattern=r"^GPU-[0-9a-fA-F-]+$")]
_Given = Annotated[int, Field(ge=1)] | list[_Place | _Uuid] | None
Gpus = Annotated[_Given, AfterValidator(_each_once)]
"""None: chosen. A number: so many, chosen. A list: these, by place or UUID."""
