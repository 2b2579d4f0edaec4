"""Ranks of a divided model: each proves the slices that it holds, and all of them together cover every tensor.

vLLM's own parallel layers, loaded by their own loaders. Only the group of ranks is simulated: one rank after another.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from pace_async.advise.engines.vllm_proof import in_force
from pace_async.slices import Slice, covered

pytestmark = [
    pytest.mark.needs_vllm,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # in this process vLLM loads what torch means to drop
]

WIDTH, HEAD, HEADS, KV_HEADS, WORDS = 32, 8, 8, 2, 745
KEYS, VALUES, KERNEL = 16, 32, 4

Part = str | int | tuple[int, ...]
"""What vLLM's loader calls the part of a fused layer that a tensor fills."""


@dataclass(frozen=True)
class Given:
    """A tensor of the checkpoint, the parameter that it goes to, and its part of it."""

    parameter: str
    shape: tuple[int, ...]
    part: Part | None = None


CHECKPOINT = {
    "embed.weight": Given("embed.weight", (WORDS, WIDTH)),
    "attn.q_proj.weight": Given("attn.qkv_proj.weight", (HEADS * HEAD, WIDTH), "q"),
    "attn.k_proj.weight": Given("attn.qkv_proj.weight", (KV_HEADS * HEAD, WIDTH), "k"),
    "attn.v_proj.weight": Given("attn.qkv_proj.weight", (KV_HEADS * HEAD, WIDTH), "v"),
    "attn.q_proj.bias": Given("attn.qkv_proj.bias", (HEADS * HEAD,), "q"),
    "attn.k_proj.bias": Given("attn.qkv_proj.bias", (KV_HEADS * HEAD,), "k"),
    "attn.v_proj.bias": Given("attn.qkv_proj.bias", (KV_HEADS * HEAD,), "v"),
    "attn.o_proj.weight": Given("attn.o_proj.weight", (WIDTH, HEADS * HEAD)),
    "attn.o_proj.bias": Given("attn.o_proj.bias", (WIDTH,)),
    "mlp.gate_proj.weight": Given("mlp.gate_up_proj.weight", (48, WIDTH), 0),
    "mlp.up_proj.weight": Given("mlp.gate_up_proj.weight", (48, WIDTH), 1),
    "mlp.down_proj.weight": Given("mlp.down_proj.weight", (WIDTH, 48)),
    "linear.in_proj_qkv.weight": Given("linear.in_proj_qkvz.weight", (2 * KEYS + VALUES, WIDTH), (0, 1, 2)),
    "linear.in_proj_z.weight": Given("linear.in_proj_qkvz.weight", (VALUES, WIDTH), 3),
    "linear.conv1d.weight": Given("linear.conv1d.weight", (2 * KEYS + VALUES, 1, KERNEL)),
    "linear.dt_bias": Given("linear.dt_bias", (4,)),
    "gate.weight": Given("gate.weight", (6, WIDTH)),
    "norm.weight": Given("norm.weight", (WIDTH,)),
    "lm_head.weight": Given("lm_head.weight", (WORDS, WIDTH)),
}


class LinearAttention(nn.Module):
    """The weights of a layer of linear attention, made and divided as vLLM's class for Qwen3.5 does it."""

    def __init__(self, ranks: int, rank: int) -> None:
        super().__init__()
        layers = cast_module("vllm.model_executor.layers.linear")
        mamba = cast_module("vllm.model_executor.layers.mamba.mamba_mixer2")
        utils = cast_module("vllm.model_executor.model_loader.weight_utils")
        self.key_dim, self.value_dim, self.tp_size, self.tp_rank = KEYS, VALUES, ranks, rank
        self.in_proj_qkvz = layers.MergedColumnParallelLinear(WIDTH, [KEYS, KEYS, VALUES, VALUES], bias=False)
        self.conv1d = layers.ColumnParallelLinear(KERNEL, 2 * KEYS + VALUES, bias=False)
        self.conv1d.weight.data = self.conv1d.weight.data.unsqueeze(1)
        parts = [(KEYS, 0, False), (KEYS, 0, False), (VALUES, 0, False)]
        self.conv1d.weight.weight_loader = mamba.mamba_v2_sharded_weight_loader(parts, ranks, rank)
        self.dt_bias: Any = nn.Parameter(torch.zeros(4 // ranks))
        self.dt_bias.weight_loader = utils.sharded_weight_loader(0)


class Model(nn.Module):
    packed_modules_mapping: ClassVar = {
        "qkv_proj": ["q_proj", "k_proj", "v_proj"],
        "gate_up_proj": ["gate_proj", "up_proj"],
        "in_proj_qkvz": ["in_proj_qkv", "in_proj_z"],
    }

    def __init__(self, ranks: int, rank: int) -> None:
        super().__init__()
        layers = cast_module("vllm.model_executor.layers.linear")
        words = cast_module("vllm.model_executor.layers.vocab_parallel_embedding")
        self.embed = words.VocabParallelEmbedding(WORDS, WIDTH)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.qkv_proj = layers.QKVParallelLinear(WIDTH, HEAD, HEADS, KV_HEADS, bias=True)
        self.attn.o_proj = layers.RowParallelLinear(HEADS * HEAD, WIDTH, bias=True)
        self.mlp.gate_up_proj = layers.MergedColumnParallelLinear(WIDTH, [48, 48], bias=False)
        self.mlp.down_proj = layers.RowParallelLinear(48, WIDTH, bias=False)
        self.linear = LinearAttention(ranks, rank)
        self.gate = layers.ReplicatedLinear(WIDTH, 6, bias=False)
        self.norm = nn.Module()
        self.norm.weight = nn.Parameter(torch.zeros(WIDTH))
        self.lm_head = words.ParallelLMHead(WORDS, WIDTH)


def cast_module(name: str) -> Any:
    return import_module(name)


@contextmanager
def as_rank(rank: int, ranks: int) -> Generator[None]:
    """What vLLM makes meanwhile belongs to this rank."""
    state, config = cast_module("vllm.distributed.parallel_state"), cast_module("vllm.config")
    with pytest.MonkeyPatch.context() as patch, config.set_current_vllm_config(config.VllmConfig()):
        patch.setattr(state, "_TP", SimpleNamespace(rank_in_group=rank, world_size=ranks))
        yield


def tensors_of(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(given.shape, generator=generator) for name, given in CHECKPOINT.items()}


def proven_by(rank: int, ranks: int, held: dict[str, Tensor], given: dict[str, Tensor]) -> dict[str, tuple[Slice, ...]]:
    """What a rank that has loaded `held` proves of `given`."""
    with as_rank(rank, ranks), torch.inference_mode():
        model = Model(ranks, rank)
        parameters: dict[str, Any] = dict(model.named_parameters())
        for name, tensor in held.items():
            to = CHECKPOINT[name]
            parameter = parameters[to.parameter]
            load: Any = getattr(parameter, "weight_loader", _copied)
            load(parameter, tensor, *(() if to.part is None else (to.part,)))
        for layer in model.modules():
            method: Any = getattr(layer, "quant_method", None)
            if method is not None and layer is not model.linear.conv1d:
                method.process_weights_after_loading(layer)  # on a CPU, packs a kernel
        return in_force(model, given, seed=1)


def _copied(parameter: nn.Parameter, tensor: Tensor) -> None:
    parameter.data.copy_(tensor)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_all_ranks_together_prove_every_tensor_and_no_rank_alone_does(ranks: int) -> None:
    given = tensors_of(0)
    proven = [proven_by(rank, ranks, given, given) for rank in range(ranks)]
    assert all(one.keys() == given.keys() for one in proven)
    whole = {"attn.o_proj.bias", "gate.weight", "norm.weight"}
    for name, tensor in given.items():
        slices = [one[name] for one in proven]
        if ranks == 1 or name in whole:
            assert set(slices) == {()}, name
            continue
        assert covered(tensor.shape, [part for one in slices for part in one]), name
        assert not any(covered(tensor.shape, one) for one in slices), name


def test_a_rank_proves_nothing_of_a_tensor_of_which_its_slice_is_another() -> None:
    given = tensors_of(0)
    for name in ("attn.k_proj.weight", "attn.o_proj.weight", "embed.weight", "linear.conv1d.weight", "linear.dt_bias"):
        other = {**given, name: given[name].clone()}
        last = other[name][:, WIDTH:] if name == "attn.o_proj.weight" else other[name][-1:]  # of the last rank alone
        last += 1e-3
        assert name not in proven_by(1, 2, other, given)
        assert proven_by(0, 2, other, given).keys() == given.keys()


def test_a_rank_that_loaded_the_slice_of_another_rank_proves_nothing_of_it() -> None:
    """As a loader would that divides in another way."""
    given = tensors_of(0)
    name = "mlp.down_proj.weight"
    swapped = {**given, name: given[name].roll(24, dims=1)}
    for rank in range(2):
        assert given.keys() - proven_by(rank, 2, swapped, given).keys() == {name}
