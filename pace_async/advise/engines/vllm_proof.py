"""Whether a model computes with the weights that it was given, tensor by tensor.

vLLM fuses tensors, pads them and, on a CPU, packs them into kernels whose parameters are empty afterwards: a parameter
proves nothing. So a layer is asked. Applied to a unit vector it returns one column of its weight, exactly, in any
type, whatever kernel multiplies (one times the number, plus zeros). A few columns of every layer, drawn anew for each
version, cover all rows of every tensor; what is no matrix is compared where it stands. One learning step changes
nearly every column, so weights of an earlier version do not pass. Needs a layer to lie whole on one device.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from pace_async.advise.engines.vllm_places import Place, Places

COLUMNS = 8
"""Asked of each layer."""


def not_in_force(model: Any, tensors: Mapping[str, Tensor], seed: int, rename: Callable[[str], str] = str) -> list[str]:
    """Names of the tensors that the model does not compute with; empty if all are in force. `rename` turns a
    checkpoint's name into the model's; `seed` draws the columns."""
    places = Places(model, {rename(name): tensor.shape for name, tensor in tensors.items()})
    columns: dict[int, tuple[Tensor, Tensor]] = {}
    wrong: list[str] = []
    for name, tensor in tensors.items():
        place = places.of(rename(name))
        if place is None or not _in_force(place, tensor, columns, seed):
            wrong.append(name)
    return wrong


def columns_of(layer: Any, method: Any, weight: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Which columns were drawn, and what the kernel of a layer holds in them, (rows, columns). Width, type and device
    are those of `weight`."""
    width = weight.shape[1]
    which = torch.randperm(width, generator=torch.Generator().manual_seed(seed))[:COLUMNS]
    units = torch.zeros(len(which), width, dtype=weight.dtype, device=weight.device)
    units[torch.arange(len(which)), which] = 1
    return which, method.apply(layer, units, None).T


def _in_force(place: Place, tensor: Tensor, columns: dict[int, tuple[Tensor, Tensor]], seed: int) -> bool:
    stored: Tensor | None = getattr(place.layer, place.parameter, None)
    if stored is None:
        return False
    proven = False
    if stored.numel() > 0:
        if not _same(_rows(stored, place, tensor), tensor.to(stored.device, stored.dtype)):
            return False
        proven = True
    method = getattr(place.layer, "quant_method", None)
    if place.parameter != "weight" or tensor.ndim != 2 or not hasattr(method, "apply"):
        return proven
    if id(place.layer) not in columns:
        like = torch.empty(0, tensor.shape[1], dtype=stored.dtype, device=stored.device)
        columns[id(place.layer)] = columns_of(place.layer, method, like, seed)
    which, computed = columns[id(place.layer)]
    expected = tensor[:, which].to(computed.device, computed.dtype)
    return torch.equal(_rows(computed, place, tensor), expected)


def _same(one: Tensor, other: Tensor) -> bool:
    """Bit for bit, in words of eight bytes where they can be cut so: a fifth of the time of comparing numbers."""
    if one.shape != other.shape:
        return False
    flat, reference = one.contiguous().view(-1), other.contiguous().view(-1)
    wide = flat.numel() * flat.element_size() % 8 == 0 and flat.data_ptr() % 8 == 0 and reference.data_ptr() % 8 == 0
    if wide and flat.numel() > 0:
        flat, reference = flat.view(torch.int64), reference.view(torch.int64)
    return torch.equal(flat, reference)


def _rows(whole: Tensor, place: Place, tensor: Tensor) -> Tensor:
    return whole[place.offset : place.offset + tensor.shape[0]] if tensor.ndim else whole
