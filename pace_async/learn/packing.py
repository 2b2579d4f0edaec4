"""Several calls in one row of a pass, without padding.

Positions begin again at each call, and attention is computed call by call. So no call sees another, no mask is made,
and attention costs what it costs for the calls alone: one mask for the row would cost the square of the row's length.

Invariant: a call's scores in a row are those of the call alone, up to rounding. This holds where attention alone
carries something from token to token. Layers that carry a state (linear attention, a convolution over tokens) would
carry it into the next call. Whether a model has any is asked of the model itself (`can_pack`): a call that follows one
of values that are not numbers has to be computed as it is alone.

Imports torch and not TRL.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch.nn.functional import pad
from transformers import AttentionInterface
from transformers.integrations import sdpa_attention

from pace_async.learn.head import ROUNDINGS, causal

_ATTENTION, _USUAL = "pace_packed", "sdpa"
_FULL = "full_attention"
LENGTHS = "packed_lengths"
"""Argument of a forward pass that reaches its attention: the tokens of each call in the row."""

_sdpa = cast("Any", sdpa_attention).sdpa_attention_forward


@dataclass(frozen=True, slots=True)
class PackedRow:
    """The calls of a micro-batch in one row of L tokens. `scored_1T` is true on the tokens to score, of all but the
    first. `inputs` are what a forward pass needs beside the ids."""

    ids_1L: torch.Tensor
    scored_1T: torch.Tensor
    inputs: dict[str, Any]


def pack_rows(ids_BL: torch.Tensor, scored_BT: torch.Tensor, lengths: Sequence[int]) -> PackedRow:
    """The first `lengths[b]` tokens of each row b, one row after the other. `scored_BT`: of the last T columns."""
    scored_BL = pad(scored_BT, (ids_BL.shape[1] - scored_BT.shape[1], 0))
    ids_L, scored_L = (
        torch.cat([row_L[:length] for row_L, length in zip(table_BL, lengths, strict=True)])
        for table_BL in (ids_BL, scored_BL)
    )
    positions_L = torch.cat([torch.arange(length, device=ids_BL.device) for length in lengths])
    return PackedRow(ids_L[None], scored_L[None, 1:], {"position_ids": positions_L[None], LENGTHS: tuple(lengths)})


def can_pack(models: Iterable[Any | None], run: Callable[..., Any], ids_1L: torch.Tensor, eps: float) -> bool:
    """Whether all models, but for None, can now take packed rows. If not, they stay as they are. `run` is a forward
    pass of a model, its first argument, and `ids_1L` a text for trials, in which numbers are rounded by `eps`. Needs
    all ranks."""
    present = [model for model in models if model is not None]
    if not all(_has_only_full_attention(model) for model in present):
        return False
    for model in present:
        causal(model).set_attn_implementation(_ATTENTION)
    if all(_keeps_calls_apart(model, partial(run, model), ids_1L, eps) for model in present):
        return True
    for model in present:
        causal(model).set_attn_implementation(_USUAL)
    return False


def _has_only_full_attention(model: Any) -> bool:
    """Whether every layer attends to all earlier tokens, by torch's own attention."""
    inner = causal(model)
    text = inner.config.get_text_config()
    kinds: set[str] = set(getattr(text, "layer_types", None) or [_FULL])
    return (
        inner.config._attn_implementation == _USUAL
        and inner._can_set_attn_implementation()
        and kinds == {_FULL}
        and getattr(text, "sliding_window", None) is None
    )


@torch.no_grad()
def _keeps_calls_apart(model: Any, run: Callable[..., Any], ids_1L: torch.Tensor, eps: float) -> bool:
    """Whether a call after one of values that are not numbers is computed as it is alone."""
    first = ids_1L.shape[1] // 3
    row = pack_rows(ids_1L.repeat(2, 1), torch.zeros_like(ids_1L).repeat(2, 1), (first, ids_1L.shape[1]))

    def spoil(_module: Any, _inputs: Any, embedded_1LH: torch.Tensor) -> torch.Tensor:
        spoiled_1LH = embedded_1LH.clone()
        spoiled_1LH[:, :first] = torch.nan
        return spoiled_1LH

    alone_LV = run(input_ids=ids_1L).logits[0].float()
    handle = model.get_input_embeddings().register_forward_hook(spoil)
    try:
        after_LV = run(input_ids=row.ids_1L, **row.inputs).logits[0, first:].float()
    finally:
        handle.remove()
    # False as well if any is not a number.
    return float((after_LV - alone_LV).abs().mean()) <= ROUNDINGS * eps * max(1.0, float(alone_LV.abs().max()))


def _attention(
    module: Any,
    query_BHLD: Any,
    key_BHLD: Any,
    value_BHLD: Any,
    mask: torch.Tensor | None,
    **keywords: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention within each call of a row, or within each row."""
    lengths: tuple[int, ...] = keywords.pop(LENGTHS, ())
    if len(lengths) < 2:
        return _sdpa(module, query_BHLD, key_BHLD, value_BHLD, mask, **keywords)
    parts = (tensor.split(lengths, dim=2) for tensor in (query_BHLD, key_BHLD, value_BHLD))
    calls = [_sdpa(module, *part, None, **keywords)[0] for part in zip(*parts, strict=True)]
    return torch.cat(calls, dim=1), None


cast("Any", AttentionInterface).register(_ATTENTION, _attention)
