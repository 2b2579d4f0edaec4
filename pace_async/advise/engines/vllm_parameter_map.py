"""Parameter map: from a checkpoint's tensors to rows of the parameters of vLLM's model.

vLLM fuses several tensors into one parameter of one layer, a range of rows each, and pads vocabularies. Rows are
counted in the undivided layer: `vllm_slices` says which of them a rank holds. Imports no vLLM.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

HEAD = "lm_head.weight"
"""A checkpoint's name of the output head, whatever path the model gives it."""


@dataclass(frozen=True, slots=True)
class ParameterRows:
    """Rows that one tensor of a checkpoint fills: from row `offset` of a parameter of the layer at `path`. `parent` is
    the module that contains the layer."""

    path: str
    layer: Any
    parameter: str
    offset: int
    parent: Any = None


class ParameterMap:
    """Parameter map of one checkpoint in one model. `shapes` of its tensors, by the model's names."""

    def __init__(self, model: Any, shapes: Mapping[str, Sequence[int]]) -> None:
        self._layers: dict[str, Any] = dict(model.named_modules())
        self._packed: Mapping[str, Sequence[str]] = getattr(model, "packed_modules_mapping", {})
        self._shapes = shapes

    def rows_of(self, name: str) -> ParameterRows | None:
        """The rows for the tensor that the model calls `name`, or None if the model has none."""
        path, _, parameter = name.rpartition(".")
        if path in self._layers:
            return ParameterRows(path, self._layers[path], parameter, 0, self._layers.get(path.rpartition(".")[0]))
        parent, _, part = path.rpartition(".")
        for fused, parts in self._packed.items():
            whole = f"{parent}.{fused}"
            if part in parts and whole in self._layers:
                before = [f"{parent}.{other}.{parameter}" for other in parts[: list(parts).index(part)]]
                if not all(other in self._shapes for other in before):
                    return None
                first = sum(self._shapes[other][0] for other in before)
                return ParameterRows(whole, self._layers[whole], parameter, first, self._layers.get(parent))
        return None


def with_head(
    tensors: Mapping[str, T], ends: tuple[str, str] | None, rename: Callable[[str], str]
) -> tuple[dict[str, T], dict[str, str]]:
    """The tensors of a checkpoint, with a head added if the checkpoint ties it to the embedding and the model keeps
    both. `ends` are the paths of the model's embedding and head. Also returns, by the added head's name, the name of
    the tensor that it repeats."""
    whole, path = dict(tensors), "" if ends is None else f"{ends[1]}.weight"
    by_model_name = {rename(name): name for name in tensors}
    if ends is None or path in by_model_name or f"{ends[0]}.weight" not in by_model_name:
        return whole, {}
    head, embedding = HEAD if rename(HEAD) == path else path, by_model_name[f"{ends[0]}.weight"]
    return {**whole, head: whole[embedding]}, {head: embedding}
