"""Weights that lie in equal parts on several ranks, by torch's `fully_shard`.

Each layer is one part of the model that is gathered for its pass and freed after it. What no layer holds (embeddings,
the head) is another. Where passes are in bfloat16, so are the weights of a layer's matrices while they are whole: a
pass rounds them in any case, and half as many bytes are sent. Gradients are summed over the ranks, not averaged,
because each micro-batch's loss is already divided by the tokens of the whole group.

Adapters are small and are not sharded: each rank has all of them, and their gradients are summed after the passes.
Only imported in the learner's child process.
"""

from collections.abc import Iterable
from typing import Any, cast

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn import Linear

from pace_async.learn.passes import layers
from pace_async.learn.ranks import Ranks

_sharded = cast("Any", fully_shard)
_distributed = cast("Any", distribute_tensor)


def shard(model: Any, ranks: Ranks, *, half: bool) -> None:
    """Leave this rank's part of every weight in `model`, on this rank's device, in its own number type. `half`: passes
    are in bfloat16. Needs all ranks. Call it before the optimizer is made."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    mesh = init_device_mesh(device, (ranks.count,))
    for module in (matrix for layer in layers(model) for matrix in layer.modules() if type(matrix) is Linear):
        if half:
            # Gradients are summed in float32. Inputs are rounded where the pass rounds them, and not before.
            policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)
            _sharded(module, mesh=mesh, reshard_after_forward=True, mp_policy=policy)
    for part in (*layers(model), model):
        # The root too is freed after its pass. Otherwise a pass after the optimizer's step would use the old weights.
        _sharded(part, mesh=mesh, reshard_after_forward=True)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    model.set_reduce_scatter_unused_params(True)  # ranks may use different experts


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor, in the same memory."""
    return cast("torch.Tensor", cast("Any", tensor).to_local()) if isinstance(tensor, DTensor) else tensor


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with the parts of all ranks. Needs all ranks if it is sharded."""
    return cast("torch.Tensor", cast("Any", tensor).full_tensor()) if isinstance(tensor, DTensor) else tensor


def is_sharded(model: Any) -> bool:
    return isinstance(model, FSDPModule)


def like(tensor: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A copy of a whole tensor on the weight's device, sharded as the weight is."""
    moved = tensor.to(weight.device, copy=True)
    if not isinstance(weight, DTensor):
        return moved
    sharded = cast("Any", weight)
    # The part is a view of the whole, which would stay in memory.
    return _distributed(moved, sharded.device_mesh, sharded.placements, src_data_rank=None).clone()


def sum_gradients(weights: Iterable[torch.Tensor], ranks: Ranks) -> None:
    """Give every rank the sum of all ranks' gradients of weights that are not sharded. A weight that no rank used keeps
    no gradient."""
    if ranks.count == 1:
        return
    trained = [weight for weight in weights if weight.requires_grad]
    used = ranks.gathered([weight.grad is not None for weight in trained])
    for weight, *flags in zip(trained, *used, strict=True):
        if any(flags):
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
            cast("Any", dist).all_reduce(weight.grad)
