"""Proof, tensor by tensor, that vLLM computes with a given LoRA adapter.

vLLM copies an adapter into one slot of each layer's buffers, with a slice for each part of a fused layer. The second
matrix is multiplied by the adapter's scale. The kernels read nothing else, so the slot is compared with the checkpoint.
Rows of a slot beyond the adapter's rank must be zero. Each layer must lie whole on one device.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_PREFIX = "base_model.model."
_PARTS = {"lora_A": "lora_a_stacked", "lora_B": "lora_b_stacked"}


def not_in_slot(manager: Any, adapter: int, tensors: Mapping[str, Tensor], folder: Path) -> list[str]:
    """Names of the tensors that differ from the adapter's slot in vLLM's `manager`. The scale comes from peft's
    configuration in `folder`."""
    config = json.loads((folder / "adapter_config.json").read_text("utf-8"))
    scale = config["lora_alpha"] / config["r"]
    slots: Sequence[int | None] = manager.lora_index_to_id
    if adapter not in slots:
        return sorted(tensors)
    slot = slots.index(adapter)
    return [name for name, tensor in tensors.items() if not _stands(manager, slot, name, tensor, scale)]


def _stands(manager: Any, slot: int, name: str, tensor: Tensor, scale: float) -> bool:
    path, _, rest = name.removeprefix(_PREFIX).rpartition(".lora_")
    kind = f"lora_{rest.partition('.')[0]}"
    if kind not in _PARTS:
        return False
    for layer, part in _places(manager, path):
        stored: Tensor = getattr(layer, _PARTS[kind])[part][slot, 0]
        given = tensor.to(stored.device, stored.dtype)
        expected = torch.zeros_like(stored)
        expected[: given.shape[0], : given.shape[1]] = given * scale if kind == "lora_B" else given
        return torch.equal(stored, expected)
    return False


def _places(manager: Any, path: str) -> Iterator[tuple[Any, int]]:
    """The layer and slice that hold a checkpoint's module, if there is one."""
    layers: Mapping[str, Any] = manager.modules
    if path in layers:
        yield layers[path], 0
    parent, _, part = path.rpartition(".")
    packed: Mapping[str, Sequence[str]] = manager.packed_modules_mapping
    for fused, parts in packed.items():
        if part in parts and f"{parent}.{fused}" in layers:
            yield layers[f"{parent}.{fused}"], list(parts).index(part)
