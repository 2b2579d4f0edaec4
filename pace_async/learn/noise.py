"""What rounding alone moves: the noise above which the limits on a step must lie.

In bfloat16 two passes of almost the same weights differ by as much as two of clearly different ones, because every
activation is rounded again. So a step of any length seems to move the policy by this much. It is measured as the
movement between two passes of the same weights, of which one gets each embedded token changed by at most what rounding
would change it. All later roundings then fall differently. Two passes of equal input would show nothing: they round
alike.

Only imported in the learner's child process.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch

DRAWS = 2
"""Passes on which the noise is measured. The largest counts."""

_TF32 = 2.0**-10


def rounding(policy: Any, *, half: bool) -> float:
    """Distance of two neighbouring numbers at 1 in the type in which the policy's layers multiply. `half`: its passes
    are in bfloat16. Adapters multiply in the type of their base."""
    if half:
        return torch.finfo(torch.bfloat16).eps
    own = policy.get_input_embeddings().weight
    if own.dtype == torch.float32 and own.device.type == "cuda" and torch.get_float32_matmul_precision() != "highest":
        return _TF32
    return torch.finfo(own.dtype).eps


def is_noisy(eps: float) -> bool:
    """Whether rounding can reach a limit. In float32 it moves k3 by 1e-14, below any limit that a step could meet."""
    return eps > torch.finfo(torch.float32).eps


@contextmanager
def dithered(policy: Any, eps: float, draw: int) -> Generator[None]:
    """Passes inside the context see embeddings that are off by up to half of `eps` of their size. The same `draw` and
    shape give the same changes."""

    def change(_module: Any, _inputs: Any, embedded: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator(embedded.device).manual_seed(draw)
        share = torch.rand(embedded.shape, generator=generator, device=embedded.device) - 0.5
        return (embedded.float() * (1.0 + eps * share)).to(embedded.dtype)

    handle = policy.get_input_embeddings().register_forward_hook(change)
    try:
        yield
    finally:
        handle.remove()
