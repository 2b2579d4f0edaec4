"""Where in vLLM's model the tensors of a checkpoint stand.

vLLM fuses tensors of a checkpoint into one parameter of one layer, each some of its rows, and pads vocabularies. Needs
a layer to lie whole on one device. Imports no vLLM.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

HEAD = "lm_head.weight"
"""What checkpoints call an output head, wherever the model keeps it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor of a checkpoint stands: from row `offset` on in a parameter of the layer at `path`."""

    path: str
    layer: Any
    parameter: str
    offset: int


class Places:
    """The places of one checkpoint in one model. `shapes` are those of its tensors, under the model's names."""

    def __init__(self, model: Any, shapes: Mapping[str, Sequence[int]]) -> None:
        self._layers: dict[str, Any] = dict(model.named_modules())
        self._packed: Mapping[str, Sequence[str]] = getattr(model, "packed_modules_mapping", {})
        self._shapes = shapes

    def of(self, name: str) -> Place | None:
        """The place of the tensor that the model calls `name`; None if it has none."""
        path, _, parameter = name.rpartition(".")
        if path in self._layers:
            return Place(path, self._layers[path], parameter, 0)
        parent, _, part = path.rpartition(".")
        for fused, parts in self._packed.items():
            whole = f"{parent}.{fused}"
            if part in parts and whole in self._layers:
                before = [f"{parent}.{other}.{parameter}" for other in parts[: list(parts).index(part)]]
                if not all(other in self._shapes for other in before):
                    return None
                return Place(whole, self._layers[whole], parameter, sum(self._shapes[other][0] for other in before))
        return None


def with_head(
    given: Mapping[str, T], ends: tuple[str, str] | None, rename: Callable[[str], str]
) -> tuple[dict[str, T], dict[str, str]]:
    """A checkpoint's tensors, and with them the head that a model of two `ends` (the paths of its embedding and its
    head) needs where the checkpoint ties them; and, by the head's name, the name of the tensor that it is."""
    whole, path = dict(given), "" if ends is None else f"{ends[1]}.weight"
    by_place = {rename(name): name for name in given}
    if ends is None or path in by_place or f"{ends[0]}.weight" not in by_place:
        return whole, {}
    head, embedding = HEAD if rename(HEAD) == path else path, by_place[f"{ends[0]}.weight"]
    return {**whole, head: whole[embedding]}, {head: embedding}
