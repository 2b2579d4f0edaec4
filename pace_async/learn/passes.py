"""How the learner's passes through the model save memory. Imports torch and not TRL.

Recomputing activations changes no result: the same operations run again in the backward pass. Half precision changes
results. Only the passes use it. Weights, gradients and the optimizer stay in float32, because a step of 1e-6 vanishes
in bfloat16.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_PRODUCTS = frozenset(getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "bmm", "baddbmm"))


def recompute(policy: Any) -> None:
    """Keep only the input of each layer in a forward pass, and compute the layer again in the backward pass."""
    policy.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


@contextmanager
def in_half(device: str, *, half: bool) -> Generator[None]:
    """Passes in bfloat16 on a device of this type, if `half`. Casts of weights are not kept from layer to layer: the
    cache would hold all of them at once."""
    if not half:
        yield
        return
    with torch.autocast(device, dtype=torch.bfloat16, cache_enabled=False):
        yield


@contextmanager
def products_in_float32(device: str, *, half: bool) -> Generator[None]:
    """Multiply matrices of bfloat16 in float32 and round the result, as cards do, if `half` and this is a processor
    without instructions for bfloat16. Its own products of bfloat16 take 5 to 40 times as long. Must hold in the
    backward pass too."""
    if not half or device != "cpu" or torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        yield
        return
    with _ProductsInFloat32():
        yield


class _ProductsInFloat32(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func not in _PRODUCTS or args[-1].dtype is not torch.bfloat16:
            return func(*args, **(kwargs or {}))
        return func(*(matrix.float() for matrix in args), **(kwargs or {})).bfloat16()


def layers(model: Any) -> list[Any]:
    """The modules that transformers keeps whole when it splits the model. They are its layers."""
    kinds = set(cast("Iterable[str]", getattr(model, "_no_split_modules", None) or ()))
    return [module for module in model.modules() if type(module).__name__ in kinds]
