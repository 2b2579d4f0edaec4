"""What a receipt rests on: a layer that was not loaded, or whose kernel kept old weights, is found out."""

import sys
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from pace_async.advise.engines.vllm_proof import COLUMNS
from tests.support.proofs import not_in_force


class Packed(nn.Module):
    """A linear layer as vLLM's CPU build has it: after loading, the weight lies in a kernel and the parameter is
    empty. `padding` rows stand after the checkpoint's."""

    def __init__(self, *parts: Tensor, padding: int = 0) -> None:
        super().__init__()
        kernel = torch.cat([*parts, torch.zeros(padding, parts[0].shape[1], dtype=parts[0].dtype)])
        self.weight = nn.Parameter(torch.empty(0, dtype=kernel.dtype), requires_grad=False)
        self.kernel = kernel
        self.quant_method = SimpleNamespace(apply=self.apply_weight)

    def apply_weight(self, layer: Any, x: Tensor, bias: Tensor | None) -> Tensor:
        return x @ self.kernel.T


class Norm(nn.Module):
    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone(), requires_grad=False)


class Model(nn.Module):
    packed_modules_mapping: ClassVar = {"qkv": ["q", "k", "v"]}

    def __init__(self, tensors: dict[str, Tensor], kind: torch.dtype = torch.float32) -> None:
        super().__init__()
        cast = {name: tensor.to(kind) for name, tensor in tensors.items()}
        self.attn = nn.Module()
        self.attn.qkv = Packed(*(cast[f"attn.{part}.weight"] for part in "qkv"))
        self.norm = Norm(cast["norm.weight"])
        self.head = Packed(cast["head.weight"], padding=3)


def tensors_of(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"attn.q.weight": (8, 16), "attn.k.weight": (4, 16), "attn.v.weight": (4, 16), "head.weight": (13, 16)}
    made = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return {**made, "norm.weight": torch.randn(16, generator=generator)}


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_model_that_holds_what_it_was_given_has_every_tensor_in_force(kind: torch.dtype) -> None:
    given = tensors_of(0)
    assert not_in_force(Model(given, kind), given, seed=1) == []


@pytest.mark.fault("Weights", "a push that loads nothing")
@pytest.mark.parametrize("name", sorted(tensors_of(0)))
def test_a_tensor_that_stayed_at_the_old_weights_is_named(name: str) -> None:
    old, new = tensors_of(0), tensors_of(1)
    assert not_in_force(Model({**new, name: old[name]}), new, seed=1) == [name]


@pytest.mark.parametrize("name", [name for name in sorted(tensors_of(0)) if name != "norm.weight"])
def test_one_learning_step_is_enough_to_distinguish_two_versions(name: str) -> None:
    old = tensors_of(0)
    new = {**old, name: old[name] * (1 + 5e-5)}
    assert not_in_force(Model(old), new, seed=1) == [name]


def test_the_columns_differ_from_version_to_version_so_that_every_weight_is_asked_for_in_time() -> None:
    given = tensors_of(0)
    model = Model(given)
    asked: list[int] = []

    def listening(layer: Any, x: Tensor, bias: Tensor | None) -> Tensor:
        asked.extend(int(column) for column in x.argmax(dim=1))
        return model.head.apply_weight(layer, x, bias)

    model.head.quant_method = SimpleNamespace(apply=listening)
    for seed in range(12):
        not_in_force(model, given, seed)
    assert len(asked) == 12 * COLUMNS
    assert set(asked) == set(range(16))


@pytest.mark.parametrize(
    "more",
    [{"elsewhere.weight": torch.ones(2)}, {"norm.bias": torch.ones(16)}],
    ids=["elsewhere.weight", "norm.bias"],
)
def test_a_tensor_without_a_place_in_the_model_is_not_in_force(more: dict[str, Tensor]) -> None:
    given = tensors_of(0)
    asked = given | more
    assert not_in_force(Model(given), asked, seed=1) == sorted(asked.keys() - given.keys())


def test_names_may_differ_between_checkpoint_and_model() -> None:
    given = tensors_of(0)
    outside = {f"language.{name}": tensor for name, tensor in given.items()}
    assert not_in_force(Model(given), outside, 1, lambda name: name.removeprefix("language.")) == []


@pytest.mark.fault("Weights", "a push that loads nothing")
@pytest.mark.parametrize("stale", [False, True])
def test_a_convolution_that_vllm_packed_is_in_force_if_that_was_packed_which_it_keeps_beside_it(
    stale: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm._custom_ops", SimpleNamespace(causal_conv1d_weight_pack=packed))
    given = {"conv.weight": torch.randn((6, 1, 4), generator=torch.Generator().manual_seed(0))}
    model: Any = nn.Module()
    model.conv = Norm(packed(given["conv.weight"][:, 0] * (2 if stale else 1)))
    model.conv._cpu_unpacked_conv_weight = given["conv.weight"][:, 0].clone()
    assert not_in_force(model, given, seed=1) == (["conv.weight"] if stale else [])
    model.conv._cpu_unpacked_conv_weight = given["conv.weight"][:, 0] * 3
    assert not_in_force(model, given, seed=1) == ["conv.weight"]


def packed(weight: Tensor) -> Tensor:
    return weight.T.contiguous()
