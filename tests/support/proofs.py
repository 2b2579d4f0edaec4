"""What of a version a model does not compute with."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from pace_async.advise.engines.vllm_proof import in_force
from pace_async.advise.engines.vllm_staged_weights import StagedWeights


def not_in_force(model: Any, tensors: Mapping[str, Tensor], seed: int, rename: Callable[[str], str] = str) -> list[str]:
    """Names of the tensors that an undivided model does not compute with."""
    proven = in_force(model, tensors, seed, rename)
    assert not any(proven.values())
    return [name for name in tensors if name not in proven]


def unproven(staged: StagedWeights) -> set[str]:
    """Names of the staged tensors that the model does not compute with."""
    return staged.digests.keys() - staged.in_force().keys()
