"""Load weights from a checkpoint directory into a model, and prove it tensor by tensor.

Invariant: copying starts only after these checks: every tensor of the checkpoint has a place of the same shape in the
model, every place in the model is covered, and every number is finite. Digests are taken from the model afterwards.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from torch import Tensor

from pace_async.model_folder import weight_files
from pace_async.weights import tensor_digest

_READERS = 4
"""Tensors checked and digested at once. Neither holds the interpreter."""

SPELLING = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
"""safetensors' names of the types that can be served."""


class BadCheckpoint(ValueError):
    """The checkpoint does not fit the model. The model is unchanged."""


def load_checkpoint(model: Any, folder: Path) -> dict[str, torch.dtype]:
    """Copy every tensor of `folder` into `model`. Returns the type of each tensor, by name. Raises BadCheckpoint."""
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
    """Digest of each tensor as the model now holds it, in the checkpoint's type. (A bf16 checkpoint is served in fp32,
    which is lossless.)"""
    places = _places(model)
    return {name: digest_of(places[name].detach().to("cpu", dtype)) for name, dtype in types.items()}


def refuse_unless_servable(folder: Path, name: str, tensor: Tensor) -> None:
    """Raises BadCheckpoint for an unknown type or for numbers that are not finite."""
    if tensor.dtype not in SPELLING:
        raise BadCheckpoint(f"{folder}: {name} is of type {tensor.dtype}, which cannot be served")
    # If any number is NaN, the extremes are NaN. Testing only them takes a thirtieth of the time.
    if tensor.numel() > 0 and not bool(torch.isfinite(torch.stack(torch.aminmax(tensor))).all()):
        raise BadCheckpoint(f"{folder}: {name} holds a number that is not finite")


def digested(folder: Path, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Digest of each tensor of a version, by name, after a check that it can be served. Threads share the work. What
    lies on a card goes through host memory, tensor by tensor, beside what the card computes. Raises BadCheckpoint."""

    def digest(one: tuple[str, Tensor]) -> str:
        with beside_computing(one[1].device):
            refuse_unless_servable(folder, *one)
            return digest_of(one[1])

    with ThreadPoolExecutor(_READERS, "pace-digest", lambda: torch.set_num_threads(1)) as readers:
        return dict(zip(tensors, readers.map(digest, tensors.items()), strict=True))


def beside_computing(device: torch.device) -> AbstractContextManager[object]:
    """A stream of this thread's own, if the device is a card: what is done in it does not wait for a model's step."""
    if device.type == "cpu":
        return nullcontext()
    return cast("Any", torch.cuda).stream(cast("Any", torch.cuda).Stream(device))


def _places(model: Any) -> dict[str, Tensor]:
    """The model's own tensors by name. A tied tensor appears under each of its names."""
    return dict(model.state_dict())


def read_tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Yields name and tensor of a checkpoint's weights (`model_folder`). Raises BadCheckpoint."""
    try:
        files = weight_files(folder)
    except ValueError as error:
        raise BadCheckpoint(str(error)) from error
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
    """`weights.tensor_digest` of a tensor. A contiguous tensor on the CPU is not copied."""
    data = tensor.to("cpu").contiguous().reshape(-1).view(torch.uint8).numpy().data
    return tensor_digest(SPELLING[tensor.dtype], tuple(tensor.shape), data)
