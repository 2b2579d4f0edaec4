"""Versions of the tiny advisor that are all different."""

import shutil
from pathlib import Path

import torch

from pace_async.advise.engines.vllm_parameter_map import HEAD
from pace_async.runtime.children.advisor_folder import TINY
from pace_async.weights import write_atomically
from tests.support.tensor_files import load_file, save_file

END = 1


def version_of(folder: Path, seed: int, **tensors: torch.Tensor | None) -> Path:
    """The tiny advisor with some noise on its weights, which hardly ever ends an answer. Tensors may be replaced or
    (None) left out. Dots of names are written __."""

    def write(target: Path) -> None:
        generator = torch.Generator().manual_seed(seed)
        made = load_file(TINY / "model.safetensors")
        for name, tensor in made.items():
            made[name] = tensor * (1 + 0.05 * torch.randn(tensor.shape, generator=generator))
        made[HEAD][END] = 0
        for name, tensor in tensors.items():
            made.pop(name.replace("__", "."))
            if tensor is not None:
                made[name.replace("__", ".")] = tensor
        for file in TINY.iterdir():
            if file.suffix == ".json":
                shutil.copyfile(file, target / file.name)
        save_file(made, target / "model.safetensors")

    write_atomically(folder, write)
    return folder
