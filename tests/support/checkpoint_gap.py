"""How far apart the weights in two folders are."""

from pathlib import Path
from typing import Any, cast

import safetensors.torch
import torch

_files = cast("Any", safetensors.torch)


def gap_of(first: Path, second: Path) -> float:
    """Norm of the difference as a share of the second's norm. The names, types and shapes have to be the same."""
    ours, theirs = (_tensors(folder) for folder in (first, second))
    assert {name: (value.dtype, value.shape) for name, value in ours.items()} == {
        name: (value.dtype, value.shape) for name, value in theirs.items()
    }
    apart = sum(float((ours[name].double() - value.double()).square().sum()) for name, value in theirs.items())
    return (apart / sum(float(value.double().square().sum()) for value in theirs.values())) ** 0.5


def _tensors(folder: Path) -> dict[str, torch.Tensor]:
    return {
        name: value for file in sorted(folder.glob("*.safetensors")) for name, value in _files.load_file(file).items()
    }
