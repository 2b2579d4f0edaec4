"""Whether a row's positions mean the same alone and beside a longer row.

Some models choose the frequencies of their rotary embedding by the longest row of a pass. Then the logprobs of a short
row depend on what is computed beside it, those of a long one change in its middle, and no gradient is that of the
policy that sampled. This is measured at the modules that turn positions into embeddings, whatever they are called.

Imports torch. Only imported in the children of engine and learner.
"""

from typing import Any, cast

import torch
from torch import Tensor

_TOKENS = 16
_APART = 1e-3
"""Embedded positions are cosines and sines, and equal ones differ by 1e-7 at most."""


class DependsOnNeighbours(ValueError):
    """What a row of a pass computes depends on the other rows."""


def refuse_dependent_rows(model: Any, longest: int) -> None:
    """Raises DependsOnNeighbours if a row of up to `longest` tokens changes what a shorter one computes. Takes some
    passes of a few tokens, because positions may be far apart. Changes no weight."""
    device = next(model.parameters()).device
    lengths = list[int]()
    while (short := _TOKENS << len(lengths)) < longest:
        lengths.append(short)
    rows = [_spread(length - 1, device) for length in (*lengths, longest)]
    beside = _embedded(model, torch.stack(rows)) if lengths else {}
    for place, short in enumerate(lengths):
        alone = _embedded(model, rows[place][None])
        for name in alone.keys() & beside.keys():
            apart = (
                float((one[0].double() - other[place].double()).abs().max())
                for one, other in zip(alone[name], beside[name], strict=True)
            )
            if max(apart, default=0.0) > _APART:
                raise DependsOnNeighbours(
                    f"the model embeds the positions of a row of {short} tokens ({name}) otherwise beside a row of "
                    f"{longest}, so that logprobs would depend on what else is computed: only models whose positions "
                    "do not change with the length can be trained and served"
                )


def _spread(last: int, device: torch.device) -> Tensor:
    """Positions from 0 to `last`."""
    return torch.linspace(0, last, _TOKENS, dtype=torch.float64, device=device).round().long()


def _embedded(model: Any, positions_BT: Tensor) -> dict[str, list[Tensor]]:
    """What the model's innermost modules make of these positions, by their names."""
    embeddings: dict[str, list[Tensor]] = {}

    def recorder(name: str) -> Any:
        def record(_module: Any, inputs: Any, named: dict[str, Any], output: Any) -> None:
            if any(argument is positions_BT for argument in (*inputs, *named.values())):
                outputs = cast("list[Any]", output if isinstance(output, (tuple, list)) else [output])
                rows = [
                    tensor
                    for tensor in outputs
                    if isinstance(tensor, Tensor) and tensor.shape[:1] == positions_BT.shape[:1]
                ]
                embeddings.setdefault(name, []).extend(rows)

        return record

    handles = [
        module.register_forward_hook(recorder(name), with_kwargs=True)
        for name, module in model.named_modules()
        if next(module.children(), None) is None
    ]
    ids_BT = torch.ones_like(positions_BT)
    try:
        with torch.no_grad():
            model(input_ids=ids_BT, position_ids=positions_BT, use_cache=False, logits_to_keep=1)
    finally:
        for handle in handles:
            handle.remove()
    return embeddings
