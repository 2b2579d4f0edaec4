"""The proof of an adapter covers every slice of every kind of fused layer. Layers are laid out as in vLLM."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from pace_async.advise.engines.vllm_lora_proof import not_in_slot

WIDTH, RANK, HIGHEST, SLOTS, SCALE = 6, 2, 4, 3, 1.5
SLOT, ADAPTER = 1, 7
PACKED = {
    "qkv_proj": ["q_proj", "k_proj", "v_proj"],
    "gate_up_proj": ["gate_proj", "up_proj"],
    "in_proj_qkvz": ["in_proj_qkv", "in_proj_z"],
    "in_proj_ba": ["in_proj_b", "in_proj_a"],
}
KINDS: dict[str, tuple[str, Sequence[int], Mapping[str, int]]] = {
    "plain": ("o_proj", [5], {"o_proj": 5}),
    "queries, keys and values": ("qkv_proj", [8, 3, 3], {"q_proj": 8, "k_proj": 3, "v_proj": 3}),
    "gate and up": ("gate_up_proj", [7, 7], {"gate_proj": 7, "up_proj": 7}),
    "four slices under two names": ("in_proj_qkvz", [3, 3, 5, 5], {"in_proj_qkv": 11, "in_proj_z": 5}),
    "two slices under two names": ("in_proj_ba", [2, 2], {"in_proj_b": 2, "in_proj_a": 2}),
    "fused in the checkpoint too": ("qkv_proj", [8, 3, 3], {"qkv_proj": 14}),
}


class Layer:
    """Buffers of one layer: a slot for each adapter, room for the highest rank."""

    def __init__(self, slices: Sequence[int], dtype: torch.dtype) -> None:
        self.lora_a_stacked = tuple(torch.zeros(SLOTS, 1, HIGHEST, WIDTH, dtype=dtype) for _ in slices)
        self.lora_b_stacked = tuple(torch.zeros(SLOTS, 1, size, HIGHEST, dtype=dtype) for size in slices)

    def fill(self, slot: int, first: int, a: Tensor, b: Tensor) -> int:
        """Put a module into its slices from `first` on. Returns the slice after them."""
        begin, at = 0, first
        while begin < b.shape[0]:
            rows = self.lora_b_stacked[at].shape[-2]
            self.lora_a_stacked[at][slot, 0, :RANK] = a
            self.lora_b_stacked[at][slot, 0, :, :RANK] = b[begin : begin + rows].to(self.lora_b_stacked[at]) * SCALE
            begin, at = begin + rows, at + 1
        return at


def laid_out(kind: str, folder: Path, dtype: torch.dtype) -> tuple[Any, Layer, dict[str, Tensor]]:
    """A manager with one layer, the layer, and the adapter that fills its slot."""
    fused, slices, modules = KINDS[kind]
    torch.manual_seed(3)
    layer, tensors, at = Layer(slices, dtype), dict[str, Tensor](), 0
    for module, rows in modules.items():
        a, b = torch.randn(RANK, WIDTH), torch.randn(rows, RANK)
        at = layer.fill(SLOT, at, a.to(dtype), b)
        path = f"base_model.model.model.layers.0.part.{module}"
        tensors |= {f"{path}.lora_A.weight": a, f"{path}.lora_B.weight": b}
    assert at == len(slices)
    (folder / "adapter_config.json").write_text(json.dumps({"lora_alpha": SCALE * RANK, "r": RANK}))
    manager = SimpleNamespace(
        lora_index_to_id=[None, ADAPTER, None],
        packed_modules_mapping=PACKED,
        modules={f"model.layers.0.part.{fused}": layer},
    )
    return manager, layer, tensors


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_every_slice_is_proven_and_a_change_in_any_of_them_is_found(
    kind: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    manager, layer, tensors = laid_out(kind, tmp_path, dtype)
    assert not_in_slot(manager, ADAPTER, tensors, tmp_path) == []
    for letter, stacked in (("A", layer.lora_a_stacked), ("B", layer.lora_b_stacked)):
        for buffer in stacked:
            for row, column in ((0, 0), (-1, -1)):  # a number of the adapter, and one beyond its rank
                kept = buffer[SLOT, 0, row, column].clone()
                buffer[SLOT, 0, row, column] = kept + 1
                wrong = not_in_slot(manager, ADAPTER, tensors, tmp_path)
                assert len(wrong) == 1
                assert f"lora_{letter}" in wrong[0]
                buffer[SLOT, 0, row, column] = kept
    assert not_in_slot(manager, ADAPTER, tensors, tmp_path) == []


def test_modules_that_do_not_fill_a_layer_are_not_proven(tmp_path: Path) -> None:
    manager, _, tensors = laid_out("four slices under two names", tmp_path, torch.float32)
    rows = {name: tensor for name, tensor in tensors.items() if "in_proj_z" not in name}
    assert not_in_slot(manager, ADAPTER, rows, tmp_path) == sorted(rows, key=list(rows).index)
    name = next(name for name in tensors if "in_proj_qkv.lora_B" in name)
    cut = {**tensors, name: tensors[name][:-1]}
    assert set(not_in_slot(manager, ADAPTER, cut, tmp_path)) == set(tensors)


def test_an_adapter_that_leaves_out_a_module_is_proven_where_each_has_one_slice(tmp_path: Path) -> None:
    manager, layer, tensors = laid_out("queries, keys and values", tmp_path, torch.float32)
    for buffers in (layer.lora_a_stacked, layer.lora_b_stacked):
        buffers[1][SLOT] = 0
    rest = {name: tensor for name, tensor in tensors.items() if "k_proj" not in name}
    assert not_in_slot(manager, ADAPTER, rest, tmp_path) == []
    assert len(not_in_slot(manager, ADAPTER, tensors, tmp_path)) == 2


def test_another_slot_an_unknown_module_and_an_adapter_without_a_slot_prove_nothing(tmp_path: Path) -> None:
    manager, _, tensors = laid_out("gate and up", tmp_path, torch.float32)
    assert not_in_slot(manager, ADAPTER + 1, tensors, tmp_path) == sorted(tensors)
    manager.lora_index_to_id = [ADAPTER, None, None]
    assert set(not_in_slot(manager, ADAPTER, tensors, tmp_path)) == set(tensors)
    manager.lora_index_to_id = [None, ADAPTER, None]
    manager.modules = {}
    assert set(not_in_slot(manager, ADAPTER, tensors, tmp_path)) == set(tensors)
