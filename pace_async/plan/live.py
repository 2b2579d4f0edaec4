"""Bytes that are alive, counted storage by storage, and their peak.

Works on tensors without values (`FakeTensorMode`): shapes, types and lifetimes are real, and so is what autograd keeps.
Memory that an operation takes and gives back inside itself is not seen, and neither is what an allocator keeps.
"""

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_leaves = cast("Any", tree_leaves)


class LiveBytes(TorchDispatchMode):
    """Inside this context every new storage counts until it is freed. `now` and `peak` are in bytes. `before` are the
    tensors that existed before and must not count: an operation in place would show them as new."""

    def __init__(self, before: Iterable[torch.Tensor] = ()) -> None:
        cast("Any", super()).__init__()
        self.now = 0
        self.peak = 0
        self._known: dict[int, weakref.ref[Any]] = {}
        for tensor in before:
            storage = cast("Any", tensor.untyped_storage())
            self._known[storage._cdata] = weakref.ref(storage)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        for leaf in _leaves(output):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf.untyped_storage())
        return output

    def _count(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return

        def freed(_: Any) -> None:
            self.now -= size
            del self._known[key]

        self._known[key] = weakref.ref(storage, freed)
        self.now += size
        self.peak = max(self.peak, self.now)
