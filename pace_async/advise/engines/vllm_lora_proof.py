"""Proof, tensor by tensor, that vLLM computes with a given LoRA adapter.

vLLM copies an adapter into one slot of each layer's buffers. A fused layer has slices, one after the other in its rows.
The adapter's modules that are fused in it follow each other in the same order, and each covers one slice or several:
of Qwen3.5's four slices in `in_proj_qkvz` the first three belong to `in_proj_qkv`. Each of these slices has a copy of
the module's first matrix, and its own rows of the second. The second matrix is multiplied by the adapter's scale. The
kernels read nothing else, so every slice is compared with the checkpoint. Rows of a slot beyond the adapter's rank must
be zero. Each layer must lie whole on one device. Imports no vLLM.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_PREFIX = "base_model.model."


def not_in_slot(manager: Any, adapter: int, tensors: Mapping[str, Tensor], folder: Path) -> list[str]:
    """Names of the tensors that differ from the adapter's slot in vLLM's `manager`. The scale comes from peft's
    configuration in `folder`."""
    config = json.loads((folder / "adapter_config.json").read_text("utf-8"))
    scale = config["lora_alpha"] / config["r"]
    slots: Sequence[int | None] = manager.lora_index_to_id
    if adapter not in slots:
        return sorted(tensors)
    slot = slots.index(adapter)
    rows = {_module(name): tensor.shape[0] for name, tensor in tensors.items() if _matrix(name) == "lora_B"}
    return [name for name, tensor in tensors.items() if not _stands(manager, slot, name, tensor, scale, rows)]


def _module(name: str) -> str:
    """Path of the module that a tensor of an adapter belongs to."""
    return name.removeprefix(_PREFIX).rpartition(".lora_")[0]


def _matrix(name: str) -> str:
    return f"lora_{name.rpartition('.lora_')[2].partition('.')[0]}"


def _stands(manager: Any, slot: int, name: str, tensor: Tensor, scale: float, rows: Mapping[str, int]) -> bool:
    """Whether the slot holds the tensor. `rows` of each module's second matrix, by path."""
    module, matrix = _module(name), _matrix(name)
    covered = _slices_of(manager, module, rows)
    if covered is None or matrix not in ("lora_A", "lora_B"):
        return False
    layer, first, last = covered
    if matrix == "lora_A":
        return all(_holds(layer.lora_a_stacked[at][slot, 0], tensor) for at in range(first, last))
    begin = 0
    for at in range(first, last):
        stored: Tensor = layer.lora_b_stacked[at][slot, 0]
        part = tensor[begin : begin + stored.shape[0]].to(stored.device, stored.dtype)
        if not _holds(stored, part * scale):
            return False
        begin += stored.shape[0]
    return True


def _holds(stored: Tensor, matrix: Tensor) -> bool:
    """Whether a slot holds the matrix and zeros beyond it."""
    expected = torch.zeros_like(stored)
    expected[: matrix.shape[0], : matrix.shape[1]] = matrix.to(stored.device, stored.dtype)
    return torch.equal(stored, expected)


def _slices_of(manager: Any, module: str, rows: Mapping[str, int]) -> tuple[Any, int, int] | None:
    """The layer that computes with a module of the checkpoint, and its first and last slice + 1. None if there is no
    such layer, or the rows of the modules do not fill its slices exactly."""
    for layer, modules in _layers_of(manager, module):
        ends = _ends([stacked.shape[-2] for stacked in layer.lora_b_stacked], [rows.get(name) for name in modules])
        if ends is not None:
            at = modules.index(module)
            return layer, ends[at], ends[at + 1]
    return None


def _ends(slices: Sequence[int], modules: Sequence[int | None]) -> list[int] | None:
    """Where the slices of each module end, with a 0 before them. None if they do not fill the slices. A module of
    unknown rows, which the adapter leaves out, covers one slice if every module does."""
    if len(slices) == len(modules) and all(own in (None, size) for size, own in zip(slices, modules, strict=True)):
        return list(range(len(slices) + 1))
    ends = [0]
    for own in modules:
        end, total = ends[-1], 0
        while own is not None and end < len(slices) and total < own:
            total, end = total + slices[end], end + 1
        if total != own:
            return None
        ends.append(end)
    return ends if ends[-1] == len(slices) else None


def _layers_of(manager: Any, module: str) -> Iterator[tuple[Any, list[str]]]:
    """The layers that may hold a module, each with the paths of all modules that are fused in it, in order."""
    layers: Mapping[str, Any] = manager.modules
    if module in layers:
        yield layers[module], [module]
    parent, _, part = module.rpartition(".")
    packed: Mapping[str, Sequence[str]] = manager.packed_modules_mapping
    for fused, parts in packed.items():
        if part in parts and f"{parent}.{fused}" in layers:
            yield layers[f"{parent}.{fused}"], [f"{parent}.{other}" for other in parts]
