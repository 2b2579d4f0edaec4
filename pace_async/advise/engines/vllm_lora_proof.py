"""Whether vLLM computes with the LoRA adapter that it was given, tensor by tensor.

vLLM copies an adapter into one slot of buffers that stand beside each layer, a slice for each part of a fused layer,
the second matrix multiplied with the adapter's scale; its kernels read nothing else. So the slot is compared with the
checkpoint. A slot's rows beyond the adapter's rank must be zero. Needs a layer to lie whole on one device.
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
    """Names of the tensors that do not stand in the adapter's slot of vLLM's `manager`. The scale is that of the
    configuration in `folder`, as peft writes it."""
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
    """The layer of a checkpoint's module and which slice of it, if there is one."""
    layers: Mapping[str, Any] = manager.modules
    if path in layers:
        yield layers[path], 0
    parent, _, part = path.rpartition(".")
    packed: Mapping[str, Sequence[str]] = manager.packed_modules_mapping
    for fused, parts in packed.items():
        if part in parts and f"{parent}.{fused}" in layers:
            yield layers[f"{parent}.{fused}"], list(parts).index(part)
