"""A version that is prepared beside the served one: proven before the swap, and only what was proven is swapped."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from pace_async.advise.engines.load import BadCheckpoint
from pace_async.advise.engines.vllm_staged_weights import Memory, StagedWeights, plan_layers, stage
from pace_async.weights import checkpoint_digests
from tests.support.proofs import not_in_force, unproven
from tests.support.tensor_files import save_file

EMBEDDING, HEAD = "embed.weight", "head.weight"
ENDS = ("embed", "head")


class Method:
    """A layer as in vLLM's CPU build: the weight is in a kernel, and the parameter holds it too or is empty."""

    def __init__(self, keep: bool, spoil: float = 0.0) -> None:
        self.keep, self.spoil = keep, spoil

    def process_weights_after_loading(self, layer: Any) -> None:
        kernel = layer.weight.data.clone() + self.spoil

        def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
            return x @ kernel.T

        layer.cpu_linear = linear
        if not self.keep:
            layer.weight = nn.Parameter(torch.empty(0, dtype=kernel.dtype), requires_grad=False)

    def apply(self, layer: Any, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return layer.cpu_linear(x, layer.weight, bias)


class Plain(Method):
    """How it treats a layer without a kernel: it multiplies with the parameter itself."""

    def process_weights_after_loading(self, layer: Any) -> None:
        layer.cpu_linear = torch.nn.functional.linear


class Layer(nn.Module):
    num_embeddings_padded: int

    def __init__(self, weight: Tensor, method: Method | None = None) -> None:
        super().__init__()
        self.full = {"weight": tuple(weight.shape)}
        self.weight = nn.Parameter(weight.clone(), requires_grad=False)
        if method is not None:
            self.quant_method = method
            method.process_weights_after_loading(self)


class Model(nn.Module):
    packed_modules_mapping: ClassVar = {"qkv": ["q", "k", "v"]}

    def __init__(self, given: Mapping[str, Tensor], packing: Method, padding: int = 3) -> None:
        super().__init__()
        head = given.get(HEAD, given[EMBEDDING])
        rest = torch.zeros(padding, 16, dtype=head.dtype)
        self.attn = nn.Module()
        self.attn.qkv = Layer(torch.cat([given[f"attn.{part}.weight"] for part in "qkv"]), packing)
        self.norm = Layer(given["norm.weight"])
        self.embed = Layer(torch.cat([given[EMBEDDING], rest]), Method(keep=True))
        self.head = Layer(torch.cat([head, rest]), Method(keep=True))
        for layer in (self.embed, self.head):
            layer.num_embeddings_padded = 13 + padding


def tensors_of(seed: int, *, tied: bool = False, kind: torch.dtype = torch.float32) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"attn.q.weight": (8, 16), "attn.k.weight": (4, 16), "attn.v.weight": (4, 16)}
    shapes |= {EMBEDDING: (13, 16)} if tied else {EMBEDDING: (13, 16), HEAD: (13, 16)}
    made = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return {name: t.to(kind) for name, t in {**made, "norm.weight": torch.randn(16, generator=generator)}.items()}


def written(folder: Path, tensors: Mapping[str, Tensor]) -> Path:
    folder.mkdir()
    save_file(dict(tensors), folder / "model.safetensors")
    return folder


def ready(model: Model, folder: Path, spare: Memory, *, shared: tuple[str, str] | None = ENDS) -> StagedWeights | None:
    def shapes(layer: Any) -> Mapping[str, Sequence[int]]:
        return getattr(layer, "full", {})

    plans = plan_layers(model, folder, str, shapes, lambda layer: True, shared)
    if plans is None:
        return None
    staged = stage(plans, spare, 1, lambda: None)
    while not staged.advance(0.0):
        pass
    return staged


def whole(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {HEAD: given[EMBEDDING], **given}


@pytest.mark.parametrize("method", [Method(keep=False), Method(keep=True), Plain(keep=True)])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_the_model_is_unchanged_before_the_swap_and_new_after_it(
    tmp_path: Path, method: Method, kind: torch.dtype
) -> None:
    model, spare, served = Model(tensors_of(0, kind=kind), method), Memory(), tensors_of(0, kind=kind)
    for version, tied in enumerate([False, True, True, False, False, True], start=1):
        new = tensors_of(version, tied=tied, kind=kind)
        folder = written(tmp_path / str(version), new)
        staged = ready(model, folder, spare)
        assert staged is not None
        assert staged.digests == checkpoint_digests(folder)
        assert not_in_force(model, whole(served), seed=version) == []
        assert unproven(staged) == set(new)
        staged.put_in_force()
        assert unproven(staged) == set()
        assert not_in_force(model, whole(new), seed=version) == []
        staged.forget()
        served = new


def test_a_checkpoint_of_a_finer_type_is_digested_as_it_is_and_served_in_the_models(tmp_path: Path) -> None:
    model = Model(tensors_of(0, kind=torch.bfloat16), Method(keep=False))
    new = tensors_of(1)
    staged = ready(model, written(tmp_path / "new", new), Memory())
    assert staged is not None
    staged.put_in_force()
    assert staged.digests == checkpoint_digests(tmp_path / "new")
    assert not_in_force(model, new, seed=1) == []


@pytest.mark.fault("Weights", "a push that loads nothing")
@pytest.mark.parametrize("path", ["attn.qkv", "norm", "embed", "head"])
def test_a_layer_that_was_not_swapped_is_named_by_all_its_tensors(tmp_path: Path, path: str) -> None:
    model = Model(tensors_of(0), Method(keep=False))
    staged = ready(model, written(tmp_path / "new", tensors_of(1)), Memory())
    assert staged is not None
    layer: Any = model.get_submodule(path)
    parameter, kernel = layer.weight.data, getattr(layer, "cpu_linear", None)
    staged.put_in_force()
    layer.weight.data = parameter
    if kernel is not None:
        layer.cpu_linear = kernel
    names = {"attn.qkv": {f"attn.{part}.weight" for part in "qkv"}}
    assert unproven(staged) == names.get(path, {f"{path}.weight"})


@pytest.mark.parametrize("keep", [False, True])
def test_a_kernel_without_its_weights_is_found_before_the_swap(tmp_path: Path, keep: bool) -> None:
    model, served = Model(tensors_of(0), Method(keep)), tensors_of(0)
    layer: Any = model.attn.qkv
    layer.quant_method = Method(keep, spoil=1e-3)
    with pytest.raises(BadCheckpoint, match=r"attn\.qkv"):
        ready(model, written(tmp_path / "new", tensors_of(1)), Memory())
    assert not_in_force(model, served, seed=1) == []


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    new = tensors_of(1)
    new["norm.weight"][3] = float("nan")
    with pytest.raises(BadCheckpoint, match=r"norm\.weight"):
        ready(Model(tensors_of(0), Method(keep=False)), written(tmp_path / "new", new), Memory())


SPOILS: list[Callable[[dict[str, Tensor]], object]] = [
    lambda given: given.pop("attn.v.weight"),
    lambda given: given.pop("attn.k.weight"),
    lambda given: given.pop("norm.weight"),
    lambda given: given.pop(EMBEDDING),
    lambda given: given.update({"elsewhere.weight": torch.ones(2)}),
    lambda given: given.update({"norm.bias": torch.ones(16)}),
    lambda given: given.update({"attn.v.weight": torch.ones(5, 16)}),
    lambda given: given.update({"norm.weight": torch.ones(15)}),
    lambda given: given.update({"attn.v.weight": torch.ones(4, 15)}),
    lambda given: given.update({"norm.weight": torch.ones(16, dtype=torch.int32)}),
]


@pytest.mark.fault("Weights", "a push that loads half the names")
@pytest.mark.parametrize("spoil", SPOILS)
def test_a_checkpoint_that_does_not_fill_the_model_is_left_to_vllm(
    tmp_path: Path, spoil: Callable[[dict[str, Tensor]], object]
) -> None:
    new = tensors_of(1)
    spoil(new)
    assert ready(Model(tensors_of(0), Method(keep=False)), written(tmp_path / "new", new), Memory()) is None


def test_embeddings_that_are_tied_inside_the_model_are_left_to_vllm(tmp_path: Path) -> None:
    model = Model(tensors_of(0, tied=True), Method(keep=False))
    model.head.weight = model.embed.weight
    new = written(tmp_path / "new", tensors_of(1, tied=True))
    assert ready(model, new, Memory()) is None
    assert ready(model, new, Memory(), shared=None) is None
