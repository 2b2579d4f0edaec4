"""Staged weights: the next version is prepared beside the served one, and the pause only swaps the two.

While the model generates, threads read each layer's parameters into new memory and digest them. vLLM then packs a
kernel from them, and `vllm_proof` checks that the kernel holds them. Kernels share caches that one thread may use, so
the generating thread packs them, a few between two steps (`advance`). A swap repoints the layer at the staged tensors
and kernel. The proven objects are therefore the ones that compute, and the receipt compares by identity. The next
version reuses the memory of the version before, which saves page faults.

For models on a CPU whose layers vLLM multiplies plainly, or uses unchanged (vectors). `plan_layers` returns None for
all others: convolutions, experts, quantised layers, embeddings that are tied inside the model. It is not called for a
model that is divided among ranks.
"""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from pace_async.advise.engines.load import SPELLING, BadCheckpoint, refuse_unless_servable
from pace_async.advise.engines.vllm_parameter_map import ParameterMap
from pace_async.advise.engines.vllm_proof import columns_of
from pace_async.slices import Slice
from pace_async.weights import StoredTensor, contents, tensor_digest

READERS = 2
"""Reading threads. Digesting takes half of the time, and a core is free while the learner waits for the push."""

_KINDS = {spelling: kind for kind, spelling in SPELLING.items()}

Memory = dict[tuple[str, str], Tensor]
"""Tensors free for reuse, by layer path and parameter name."""


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """Load plan for one layer: per parameter its shape, and its tensors with their first rows. `shares` is the path of
    a layer whose staged tensors this one uses too."""

    path: str
    layer: Any
    shapes: Mapping[str, tuple[int, ...]]
    parts: Mapping[str, Sequence[tuple[int, StoredTensor]]]
    shares: str | None = None


@dataclass(frozen=True, slots=True)
class StagedLayer:
    """New tensors and kernel of one layer. `kernel` is None if it has none. `digests` by tensor name, as read."""

    plan: LayerPlan
    parameters: Mapping[str, Tensor]
    kernel: Callable[..., Tensor] | None
    digests: Mapping[str, str]

    def swap(self) -> tuple[Memory, Any]:
        """Point the layer at the staged tensors and kernel. Returns its old ones."""
        layer, had = self.plan.layer, Memory()
        for name, tensor in self.parameters.items():
            parameter = getattr(layer, name)
            had[self.plan.path, name] = parameter.data
            parameter.data = tensor
        kernel = getattr(layer, "cpu_linear", None)
        if self.kernel is not None:
            layer.cpu_linear = self.kernel
        return had, kernel

    def in_force(self) -> bool:
        """Whether the layer computes with these tensors and this kernel, by identity."""
        layer = self.plan.layer
        same = all(_is(getattr(layer, name), tensor) for name, tensor in self.parameters.items())
        return same and (self.kernel is None or layer.cpu_linear is self.kernel)


@dataclass(frozen=True, slots=True)
class ReadLayer:
    """Parameters read for one layer, not yet packed. `digests` by tensor name."""

    plan: LayerPlan
    parameters: Mapping[str, Tensor]
    digests: Mapping[str, str]


@dataclass
class StagedWeights:
    """A `vllm_file.PreparedVersion` that was read from a checkpoint. `after` is called once all layers are swapped."""

    unpacked: list[ReadLayer]
    shared: Sequence[LayerPlan]
    spare: Memory
    seed: int
    after: Callable[[], None]
    digests: Mapping[str, str] = field(init=False)
    layers: list[StagedLayer] = field(default_factory=list[StagedLayer])
    _retired: list[Any] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        self.digests = {name: digest for layer in self.unpacked for name, digest in layer.digests.items()}

    def advance(self, seconds: float) -> bool:
        """Pack kernels for about `seconds`, in the generating thread. True once all are packed. Raises
        BadCheckpoint."""
        until = time.monotonic() + seconds
        while self.unpacked:
            self.layers.append(_staged_layer(self.unpacked[-1], self.seed))
            self.unpacked.pop()
            if not self.unpacked:
                by_path = {layer.plan.path: layer for layer in self.layers}
                self.layers += [replace(by_path[plan.shares or ""], plan=plan) for plan in self.shared]
            elif time.monotonic() > until:
                return False
        return True

    def put_in_force(self) -> None:
        self.advance(math.inf)
        for layer in self.layers:
            had, kernel = layer.swap()
            addresses = {tensor.data_ptr() for tensor in self.spare.values()}  # a head may share its embedding's memory
            self.spare.update((key, old) for key, old in had.items() if old.numel() and old.data_ptr() not in addresses)
            self._retired.append(kernel)
        self.after()

    def in_force(self) -> dict[str, Sequence[Slice]]:
        """Each tensor with which the model computes is whole."""
        wrong = {name for layer in self.layers if not layer.in_force() for name in layer.digests}
        return {name: () for layer in self.layers for name in layer.digests if name not in wrong}

    def forget(self) -> None:
        """Free the kernels of the version before, in the generating thread."""
        self._retired.clear()


def plan_layers(
    model: Any,
    folder: Path,
    rename: Callable[[str], str],
    shapes: Callable[[Any], Mapping[str, Sequence[int]]],
    is_plain: Callable[[Any], bool],
    shared: tuple[str, str] | None = None,
) -> list[LayerPlan] | None:
    """Load plan of each layer for the checkpoint in `folder`. None if it does not fit or cannot be staged.

    `rename` maps a checkpoint's tensor name to the model's. `shapes` gives a layer's parameter shapes before packing.
    `is_plain` tells whether a layer only multiplies with its weight. `shared` are the paths of embedding and head. The
    head shares the embedding's tensors if the checkpoint has no head."""
    tensors = contents(folder)
    parameters = ParameterMap(model, {rename(tensor.name): tensor.shape for tensor in tensors})
    parts: dict[str, dict[str, list[tuple[int, StoredTensor]]]] = {}
    for tensor in tensors:
        rows = parameters.rows_of(rename(tensor.name))
        if rows is None or tensor.dtype not in _KINDS:
            return None
        parts.setdefault(rows.path, {}).setdefault(rows.parameter, []).append((rows.offset, tensor))
    embedding, head = shared or ("", "")
    if head and head not in parts and embedding in parts:
        parts[head] = parts[embedding]
    else:
        embedding = head = ""
    plans: list[LayerPlan] = []
    seen: set[int] = set()
    for path, layer in model.named_modules():
        own: dict[str, Any] = dict(layer.named_parameters(recurse=False))
        filled = parts.pop(path, {})
        if own.keys() != filled.keys() or not is_plain(layer) or seen & {id(parameter) for parameter in own.values()}:
            return None
        seen.update(id(parameter) for parameter in own.values())
        if own:
            full = {name: tuple(shape) for name, shape in shapes(layer).items() if name in own}
            padded = hasattr(layer, "num_embeddings_padded")
            if full.keys() != own.keys() or not all(_covers(full[name], filled[name], padded) for name in own):
                return None
            plans.append(LayerPlan(path, layer, full, filled, embedding if path == head else None))
    by_path = {plan.path: plan for plan in plans}
    same = not head or by_path[embedding].shapes == by_path[head].shapes
    return plans if same and not parts else None


def stage(plans: Sequence[LayerPlan], spare: Memory, seed: int, after: Callable[[], None]) -> StagedWeights:
    """Read the tensors of each layer, the largest layer first. Raises BadCheckpoint, OSError."""
    alone = [plan for plan in plans if plan.shares is None]
    order = sorted(alone, key=lambda plan: -sum(part.length for parts in plan.parts.values() for _, part in parts))

    def read(plan: LayerPlan) -> ReadLayer:
        return _filled(plan, spare)

    with ThreadPoolExecutor(READERS, "pace-checkpoint", lambda: torch.set_num_threads(1)) as readers:
        filled = list(readers.map(read, order))
    return StagedWeights(filled, [plan for plan in plans if plan.shares is not None], spare, seed, after)


def _filled(plan: LayerPlan, spare: Memory) -> ReadLayer:
    digests: dict[str, str] = {}
    whole: dict[str, Tensor] = {}
    with torch.no_grad():
        for name, parts in plan.parts.items():
            whole[name] = memory = _memory(plan, name, spare)
            end = 0
            for offset, part in parts:
                rows = memory[offset : offset + part.shape[0]] if part.shape else memory
                digests[part.name] = _fill(rows, part)
                end = max(end, offset + part.shape[0]) if part.shape else end
            if memory.ndim:
                memory[end:].zero_()
    return ReadLayer(plan, whole, digests)


def _staged_layer(filled: ReadLayer, seed: int) -> StagedLayer:
    plan, whole, digests = filled.plan, filled.parameters, filled.digests
    method = getattr(plan.layer, "quant_method", None)
    if method is None:
        return StagedLayer(plan, whole, None, digests)
    with torch.no_grad():
        if _reads_what_it_is_given(plan.layer, method, whole["weight"]):
            return StagedLayer(plan, whole, plan.layer.cpu_linear, digests)
        packed = _packed(plan.layer, method, whole)
        which, computed = columns_of(packed, method, whole["weight"], seed)
        if not torch.equal(computed, whole["weight"][:, which]):
            raise BadCheckpoint(f"{plan.path}: the kernel does not hold the weights that it was made of")
    parameters = {name: parameter.data for name, parameter in packed.named_parameters()}
    return StagedLayer(plan, parameters, packed.cpu_linear, digests)


def _reads_what_it_is_given(layer: Any, method: Any, weight: Tensor) -> bool:
    """Whether the layer's kernel multiplies with the weight it is given and holds none of its own. Tested with another
    weight of one row. Such a kernel stays, and a mark on the layer spares the next test."""
    kernel = getattr(layer, "cpu_linear", None)
    if kernel is None or layer.weight.numel() == 0 or weight.shape[0] == 1:
        return False
    if getattr(layer, "pace_reads_its_weight", None) is kernel:
        return True
    other = torch.arange(1, weight.shape[1] + 1, dtype=torch.float32)[None].to(weight.dtype)
    trial = SimpleNamespace(weight=other, cpu_linear=kernel)
    which, computed = columns_of(trial, method, other, 0)
    reads = torch.equal(computed, other[:, which])
    if reads:
        layer.pace_reads_its_weight = kernel
    return reads


def _packed(layer: Any, method: Any, parameters: Mapping[str, Tensor]) -> Any:
    packed: Any = nn.Module()
    for name, tensor in parameters.items():
        packed.register_parameter(name, nn.Parameter(tensor, requires_grad=False))
    packed._cpu_skip_gemm_dispatch = getattr(layer, "_cpu_skip_gemm_dispatch", False)
    method.process_weights_after_loading(packed)
    return packed


def _memory(plan: LayerPlan, name: str, spare: Memory) -> Tensor:
    kind = getattr(plan.layer, name).dtype
    old = spare.pop((plan.path, name), None)
    if old is not None and old.shape == plan.shapes[name] and old.dtype == kind and old.is_contiguous():
        return old
    return torch.empty(plan.shapes[name], dtype=kind)


def _fill(rows: Tensor, part: StoredTensor) -> str:
    """Read a tensor into its rows. Returns its digest."""
    kind = _KINDS[part.dtype]
    buffer = rows if rows.dtype is kind else torch.empty(part.shape, dtype=kind)
    data = buffer.view(-1).view(torch.uint8).numpy().data
    if len(data) != part.length:
        raise BadCheckpoint(f"{part.file}: {part.name} does not have the length that its shape requires")
    with part.file.open("rb", buffering=0) as stream:
        done = 0
        while done < part.length:
            read = os.preadv(stream.fileno(), [data[done:]], part.start + done)
            if read == 0:
                raise BadCheckpoint(f"{part.file} is cut short at tensor {part.name}")
            done += read
    refuse_unless_servable(part.file.parent, part.name, buffer)
    if buffer is not rows:
        rows.copy_(buffer)
    return tensor_digest(part.dtype, part.shape, data)


def _covers(shape: tuple[int, ...], parts: Sequence[tuple[int, StoredTensor]], padded: bool) -> bool:
    """Whether the tensors fill a parameter without gap or overlap. Padding of a vocabulary may stay empty."""
    if not shape:
        return all(part.shape == () for _, part in parts) and len(parts) == 1
    end = 0
    for offset, part in sorted(parts, key=lambda pair: pair[0]):
        if offset != end or len(part.shape) not in (1, 2) or part.shape[1:] != shape[1:]:
            return False
        end += part.shape[0]
    return end == shape[0] or (padded and end < shape[0])


def _is(tensor: Tensor, other: Tensor) -> bool:
    return tensor.data_ptr() == other.data_ptr() and tensor.shape == other.shape and tensor.dtype == other.dtype
