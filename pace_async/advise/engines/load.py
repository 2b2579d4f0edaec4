"""Weights from a checkpoint directory into a model, proven tensor by tensor.

Invariant: nothing is copied until every tensor of the checkpoint has its place in the model with the same shape, every
place in the model is covered, and every number is finite. What is digested afterwards is what stands in the model.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from torch import Tensor

from pace_async.weights import tensor_digest

SPELLING = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
"""How safetensors calls the types that can be served."""


class BadCheckpoint(ValueError):
    """The checkpoint does not fit the model; the model was not touched."""


def load_checkpoint(model: Any, folder: Path) -> dict[str, torch.dtype]:
    """Copy every tensor of `folder` into `model`; returns the checkpoint's names with their types. Raises
    BadCheckpoint."""
    places = _places(model)
    types: dict[str, torch.dtype] = {}
    first: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in read_tensors(folder):
        place = places.get(name)
        if place is None:
            raise BadCheckpoint(f"{folder}: the model has no tensor {name}")
        if place.shape != tensor.shape:
            raise BadCheckpoint(f"{folder}: {name} has shape {list(tensor.shape)}, the model's {list(place.shape)}")
        refuse_unless_servable(folder, name, tensor)
        types[name] = tensor.dtype
        tied_name, tied = first.setdefault(place.data_ptr(), (name, tensor))
        if tied is not tensor and not torch.equal(tied, tensor):
            raise BadCheckpoint(f"{folder}: {name} and {tied_name} are one tensor in the model and differ here")
    missing = sorted(name for name, place in places.items() if place.data_ptr() not in first)
    if missing:
        raise BadCheckpoint(f"{folder}: {len(missing)} of the model's tensors are missing, {missing[0]} the first")
    for name, tensor in read_tensors(folder):
        places[name].copy_(tensor)
    return types


def receipt(model: Any, types: dict[str, torch.dtype]) -> dict[str, str]:
    """Digest of each tensor as it now stands in the model, in the checkpoint's type (a bf16 checkpoint is served in
    fp32, which loses nothing)."""
    places = _places(model)
    return {name: digest_of(places[name].detach().to("cpu", dtype)) for name, dtype in types.items()}


def refuse_unless_servable(folder: Path, name: str, tensor: Tensor) -> None:
    """Raises BadCheckpoint for a type that is not known and for numbers that are not finite."""
    if tensor.dtype not in SPELLING:
        raise BadCheckpoint(f"{folder}: {name} is of type {tensor.dtype}, which cannot be served")
    # The extremes are NaN if anything is, and cost a thirtieth of asking each number.
    if tensor.numel() > 0 and not bool(torch.isfinite(torch.stack(torch.aminmax(tensor))).all()):
        raise BadCheckpoint(f"{folder}: {name} holds a number that is not finite")


def _places(model: Any) -> dict[str, Tensor]:
    """Name to the model's own tensor; tied tensors stand under each of their names."""
    return dict(model.state_dict())


def read_tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Name and tensor, over every safetensors file of a checkpoint. Raises BadCheckpoint."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise BadCheckpoint(f"{folder} holds no safetensors file")
    with ExitStack() as stack:
        for file in files:
            try:
                handle = cast("Any", stack.enter_context(safe_open(file, framework="pt")))
                names: list[str] = list(handle.keys())
            except Exception as error:
                raise BadCheckpoint(f"{file} cannot be read: {error}") from error
            for name in names:
                yield name, handle.get_tensor(name)


def digest_of(tensor: Tensor) -> str:
    """The digest of `weights.tensor_digest`, of a tensor on the CPU; nothing is copied."""
    data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data
    return tensor_digest(SPELLING[tensor.dtype], tuple(tensor.shape), data)
