"""safetensors' own reading and writing of files, with the types that it leaves out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import safetensors.torch
from torch import Tensor


def load_file(file: Path) -> dict[str, Tensor]:
    return cast("Any", safetensors.torch).load_file(file)


def save_file(tensors: Mapping[str, Tensor], file: Path) -> None:
    cast("Any", safetensors.torch).save_file(tensors, file)
