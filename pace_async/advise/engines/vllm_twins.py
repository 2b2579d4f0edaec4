"""A version made ready beside the one that serves, so that a pause has only to exchange the two.

Each layer gets a twin: parameters read into memory of their own and digested there, by threads, while the model
generates; and the kernel that vLLM makes of them, which is asked whether it holds them (`vllm_proof`). Kernels share
caches that only one thread may touch, so they are made in the thread that generates, a few between two steps
(`advance`). To exchange is to let
the layer point at its twin's memory and kernel, so what was proven is what computes from then on, and is compared with
by identity. Memory that is given up is kept for the next version, which then costs no page faults.

Only for models on a CPU, of layers that vLLM multiplies plainly and of vectors that stand as they are; `plan` says
None of others (convolutions, experts, quantised ones, and embeddings that are tied inside the model).
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
from pace_async.advise.engines.vllm_places import Places
from pace_async.advise.engines.vllm_proof import columns_of
from pace_async.weights import Stored, contents, tensor_digest

READERS = 2
"""Threads: digesting takes as long as all else together, and a core is free while the learner waits for the push."""

_KINDS = {spelling: kind for kind, spelling in SPELLING.items()}

Memory = dict[tuple[str, str], Tensor]
"""Given up by the layer's path and the parameter's name."""


@dataclass(frozen=True, slots=True)
class Room:
    """What of a layer a checkpoint fills: for each parameter its shape, and which tensors from which row on. With
    `shares`, the path of another layer: what that one has."""

    path: str
    layer: Any
    shapes: Mapping[str, tuple[int, ...]]
    parts: Mapping[str, Sequence[tuple[int, Stored]]]
    shares: str | None = None


@dataclass(frozen=True, slots=True)
class Twin:
    """What a layer is to point at. `kernel` None: it has none. `digests` are of what was read, by name."""

    room: Room
    parameters: Mapping[str, Tensor]
    kernel: Callable[..., Tensor] | None
    digests: Mapping[str, str]

    def exchange(self) -> tuple[Memory, Any]:
        """Put the twin in force; returns what the layer had."""
        layer, had = self.room.layer, Memory()
        for name, tensor in self.parameters.items():
            parameter = getattr(layer, name)
            had[self.room.path, name] = parameter.data
            parameter.data = tensor
        kernel = getattr(layer, "cpu_linear", None)
        if self.kernel is not None:
            layer.cpu_linear = self.kernel
        return had, kernel

    def in_force(self) -> bool:
        """Whether the layer computes with this very memory and kernel."""
        layer = self.room.layer
        same = all(_is(getattr(layer, name), tensor) for name, tensor in self.parameters.items())
        return same and (self.kernel is None or layer.cpu_linear is self.kernel)


@dataclass(frozen=True, slots=True)
class Filled:
    """What was read for a layer: its parameters whole, and the digests by the tensors' names."""

    room: Room
    parameters: Mapping[str, Tensor]
    digests: Mapping[str, str]


@dataclass
class Twins:
    """One version, read. `after` is called with the model's layers exchanged."""

    filled: list[Filled]
    shared: Sequence[Room]
    spare: Memory
    seed: int
    after: Callable[[], None]
    digests: Mapping[str, str] = field(init=False)
    twins: list[Twin] = field(default_factory=list[Twin])
    _retired: list[Any] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        self.digests = {name: digest for one in self.filled for name, digest in one.digests.items()}

    def advance(self, seconds: float) -> bool:
        """Make kernels for about so long, in the thread that generates; whether all are made. Raises BadCheckpoint."""
        until = time.monotonic() + seconds
        while self.filled:
            self.twins.append(_twin(self.filled[-1], self.seed))
            self.filled.pop()
            if not self.filled:
                made = {twin.room.path: twin for twin in self.twins}
                self.twins += [replace(made[room.shares or ""], room=room) for room in self.shared]
            elif time.monotonic() > until:
                return False
        return True

    def put_in_force(self) -> None:
        self.advance(math.inf)
        for twin in self.twins:
            had, kernel = twin.exchange()
            kept = {tensor.data_ptr() for tensor in self.spare.values()}  # a head may have shared its embedding's
            self.spare.update((place, old) for place, old in had.items() if old.numel() and old.data_ptr() not in kept)
            self._retired.append(kernel)
        self.after()

    def not_in_force(self) -> set[str]:
        """Names of the tensors that the model does not compute with."""
        return {name for twin in self.twins if not twin.in_force() for name in twin.digests}

    def forget(self) -> None:
        """Let go of the kernels of the version before, in the thread that generates."""
        self._retired.clear()


def plan(
    model: Any,
    folder: Path,
    rename: Callable[[str], str],
    shapes: Callable[[Any], Mapping[str, Sequence[int]]],
    is_plain: Callable[[Any], bool],
    shared: tuple[str, str] | None = None,
) -> list[Room] | None:
    """Which layers the checkpoint in `folder` fills; None where it is not for twins, or does not fit. `rename` turns a
    checkpoint's name into the model's; `shapes` are those of a layer's parameters before it was packed; `is_plain`
    says whether nothing but multiplication is made of a layer's weight; `shared` are the paths of the embedding and of
    the head that gets the same where the checkpoint has no head."""
    given = contents(folder)
    places = Places(model, {rename(tensor.name): tensor.shape for tensor in given})
    parts: dict[str, dict[str, list[tuple[int, Stored]]]] = {}
    for tensor in given:
        place = places.of(rename(tensor.name))
        if place is None or tensor.dtype not in _KINDS:
            return None
        parts.setdefault(place.path, {}).setdefault(place.parameter, []).append((place.offset, tensor))
    embedding, head = shared or ("", "")
    if head and head not in parts and embedding in parts:
        parts[head] = parts[embedding]
    else:
        embedding = head = ""
    rooms: list[Room] = []
    seen: set[int] = set()
    for path, layer in model.named_modules():
        own: dict[str, Any] = dict(layer.named_parameters(recurse=False))
        filled = parts.pop(path, {})
        if own.keys() != filled.keys() or not is_plain(layer) or seen & {id(one) for one in own.values()}:
            return None
        seen.update(id(one) for one in own.values())
        if own:
            full = {name: tuple(shape) for name, shape in shapes(layer).items() if name in own}
            padded = hasattr(layer, "num_embeddings_padded")
            if full.keys() != own.keys() or not all(_covers(full[name], filled[name], padded) for name in own):
                return None
            rooms.append(Room(path, layer, full, filled, embedding if path == head else None))
    by_path = {room.path: room for room in rooms}
    same = not head or by_path[embedding].shapes == by_path[head].shapes
    return rooms if same and not parts else None


def stage(rooms: Sequence[Room], spare: Memory, seed: int, after: Callable[[], None]) -> Twins:
    """Read what each layer gets. Raises BadCheckpoint, OSError."""
    alone = [room for room in rooms if room.shares is None]
    order = sorted(alone, key=lambda room: -sum(part.length for parts in room.parts.values() for _, part in parts))

    def read(room: Room) -> Filled:
        return _filled(room, spare)

    with ThreadPoolExecutor(READERS, "pace-checkpoint", lambda: torch.set_num_threads(1)) as readers:
        filled = list(readers.map(read, order))
    return Twins(filled, [room for room in rooms if room.shares is not None], spare, seed, after)


def _filled(room: Room, spare: Memory) -> Filled:
    digests: dict[str, str] = {}
    whole: dict[str, Tensor] = {}
    with torch.no_grad():
        for name, parts in room.parts.items():
            whole[name] = memory = _memory(room, name, spare)
            end = 0
            for offset, part in parts:
                rows = memory[offset : offset + part.shape[0]] if part.shape else memory
                digests[part.name] = _fill(rows, part)
                end = max(end, offset + part.shape[0]) if part.shape else end
            if memory.ndim:
                memory[end:].zero_()
    return Filled(room, whole, digests)


def _twin(filled: Filled, seed: int) -> Twin:
    room, whole, digests = filled.room, filled.parameters, filled.digests
    method = getattr(room.layer, "quant_method", None)
    if method is None:
        return Twin(room, whole, None, digests)
    with torch.no_grad():
        if _reads_what_it_is_given(room.layer, method, whole["weight"]):
            return Twin(room, whole, room.layer.cpu_linear, digests)
        twin = _packed(room.layer, method, whole)
        which, computed = columns_of(twin, method, whole["weight"], seed)
        if not torch.equal(computed, whole["weight"][:, which]):
            raise BadCheckpoint(f"{room.path}: the kernel does not hold the weights that it was made of")
    parameters = {name: parameter.data for name, parameter in twin.named_parameters()}
    return Twin(room, parameters, twin.cpu_linear, digests)


def _reads_what_it_is_given(layer: Any, method: Any, weight: Tensor) -> bool:
    """Whether the layer's kernel holds no weight of its own: given another of one row, it multiplies with that one. A
    kernel that does is kept, so it is asked once."""
    kernel = getattr(layer, "cpu_linear", None)
    if kernel is None or layer.weight.numel() == 0 or weight.shape[0] == 1:
        return False
    if getattr(layer, "pace_reads_its_weight", None) is kernel:
        return True
    other = torch.arange(1, weight.shape[1] + 1, dtype=torch.float32)[None].to(weight.dtype)
    asked = SimpleNamespace(weight=other, cpu_linear=kernel)
    which, computed = columns_of(asked, method, other, 0)
    reads = torch.equal(computed, other[:, which])
    if reads:
        layer.pace_reads_its_weight = kernel
    return reads


def _packed(layer: Any, method: Any, parameters: Mapping[str, Tensor]) -> Any:
    twin: Any = nn.Module()
    for name, tensor in parameters.items():
        twin.register_parameter(name, nn.Parameter(tensor, requires_grad=False))
    twin._cpu_skip_gemm_dispatch = getattr(layer, "_cpu_skip_gemm_dispatch", False)
    method.process_weights_after_loading(twin)
    return twin


def _memory(room: Room, name: str, spare: Memory) -> Tensor:
    kind = getattr(room.layer, name).dtype
    old = spare.pop((room.path, name), None)
    if old is not None and old.shape == room.shapes[name] and old.dtype == kind and old.is_contiguous():
        return old
    return torch.empty(room.shapes[name], dtype=kind)


def _fill(rows: Tensor, part: Stored) -> str:
    """Read a tensor into its rows; its digest."""
    kind = _KINDS[part.dtype]
    given = rows if rows.dtype is kind else torch.empty(part.shape, dtype=kind)
    data = given.view(-1).view(torch.uint8).numpy().data
    if len(data) != part.length:
        raise BadCheckpoint(f"{part.file}: {part.name} is not as long as its shape says")
    with part.file.open("rb", buffering=0) as stream:
        done = 0
        while done < part.length:
            read = os.preadv(stream.fileno(), [data[done:]], part.start + done)
            if read == 0:
                raise BadCheckpoint(f"{part.file} is cut short at tensor {part.name}")
            done += read
    refuse_unless_servable(part.file.parent, part.name, given)
    if given is not rows:
        rows.copy_(given)
    return tensor_digest(part.dtype, part.shape, data)


def _covers(shape: tuple[int, ...], parts: Sequence[tuple[int, Stored]], padded: bool) -> bool:
    """Whether tensors fill a parameter without gap or overlap, but for a vocabulary's padding."""
    if not shape:
        return all(part.shape == () for _, part in parts) and len(parts) == 1
    end = 0
    for offset, part in sorted(parts, key=lambda one: one[0]):
        if offset != end or len(part.shape) not in (1, 2) or part.shape[1:] != shape[1:]:
            return False
        end += part.shape[0]
    return end == shape[0] or (padded and end < shape[0])


def _is(one: Tensor, other: Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.dtype == other.dtype
