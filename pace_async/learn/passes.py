"""How the learner's passes through the model save memory. Imports torch and not TRL.

Recomputing activations changes no result: the same operations run again in the backward pass. Half precision changes
results. Only the passes use it. Weights, gradients and the optimizer stay in float32, because a step of 1e-6 vanishes
in bfloat16.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

import torch


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


def layers(model: Any) -> list[Any]:
    """The modules that transformers keeps whole when it splits the model. They are its layers."""
    kinds = set(cast("Iterable[str]", getattr(model, "_no_split_modules", None) or ()))
    return [module for module in model.modules() if type(module).__name__ in kinds]
