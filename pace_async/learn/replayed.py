"""Whether repeated training gives the same weights, and how the learner goes on where it does not.

On a CPU a step that is taken again gives the same bits. A card may add numbers in another order each time. The version
that the engine serves was written when it was first made. So after a replay its files decide: where a weight of the
replay rounds to the weight in the files, the learner keeps its own, which has more digits, and elsewhere it takes the
weight in the files. Then the learner holds exactly what is served. The moments of the optimizer stay those of the
replay.

Only imported in the learner's child process.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import safetensors.torch
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from pace_async.learn.served_type import types_in
from pace_async.learn.shards import is_sharded, like, local
from pace_async.learn.trainer import GroupTrainer
from pace_async.replay.group import Group, TrainedCall, TrainedRollout

_files = cast("Any", safetensors.torch)
_AT_ONCE = 1 << 24
_ROLLOUTS, _PROMPT, _ANSWER = 4, 48, 80


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Result of a replay of `steps` steps. `differed`: number of weights that were not what was served, of `weights`.
    None: the files of the served version are gone, so nothing was compared. `repeats`: whether the device gave one
    gradient twice when the learner started. None: not tested, as on a CPU."""

    steps: int
    weights: int
    differed: int | None
    repeats: bool | None

    @property
    def exact(self) -> bool:
        """Whether the learner holds what is served without a correction, as far as that is known."""
        return self.differed == 0 or (self.differed is None and self.repeats is not False)


def repeats(trainer: GroupTrainer) -> bool:
    """Whether the device gives the same gradient of one group twice, to the last bit. Changes no weight."""
    with trainer.ranks.together("repeats"):
        group = _fixed_group(trainer)
        first, second = (_gradient_digests(trainer, group) for _ in range(2))
        return all(trainer.ranks.gathered(first == second))


def continue_from(trainer: GroupTrainer, folder: Path) -> tuple[int, int]:
    """Make the trainer hold the version in `folder`, as above. Returns how many trained weights differed from the
    files, and how many there are."""
    trainer.ranks.call("continue_from", str(folder))
    served = _weights_in(trainer, folder) if trainer.settings.lora_rank is None else _adapters_in(folder)
    differed = total = 0
    with torch.no_grad():
        for name, weight in trainer.policy.named_parameters():
            if not weight.requires_grad:
                continue
            own, target = local(weight), local(like(served[name], weight))
            wrong = own.to(target.dtype) != target
            total += own.numel()
            count = int(wrong.sum())
            if count:
                differed += count
                own.copy_(torch.where(wrong, target.to(own.dtype), own))
    if not is_sharded(trainer.policy):
        return differed, total
    everyone = trainer.ranks.gathered((differed, total))
    return sum(rank[0] for rank in everyone), sum(rank[1] for rank in everyone)


def _weights_in(trainer: GroupTrainer, folder: Path) -> dict[str, Tensor]:
    """The weights of a version, by the names of the model's class and in the types of the files."""
    loaded = cast("Any", AutoModelForCausalLM).from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    kinds = types_in(trainer.policy, folder)
    return {name: tensor.to(kinds.get(name, torch.float32)) for name, tensor in loaded.state_dict().items()}


def _adapters_in(folder: Path) -> dict[str, Tensor]:
    """The tensors of an adapter by the names that peft gives them in memory."""
    name = cast("Any", import_module("peft.utils")).SAFETENSORS_WEIGHTS_NAME
    tensors: dict[str, Tensor] = _files.load_file(folder / name)
    return {name.removesuffix(".weight") + ".default.weight": tensor for name, tensor in tensors.items()}


def _gradient_digests(trainer: GroupTrainer, group: Group) -> list[int]:
    """A digest of each tensor of the gradient, which is freed. A copy would take as much memory as the weights."""
    trainer.accumulate(group)
    grads = (weight.grad for weight in trainer.policy.parameters())
    digests = [_digest(local(grad)) for grad in grads if grad is not None]
    trainer.policy.zero_grad()
    return digests


def _digest(tensor: Tensor) -> int:
    """A sum over the bits of float32 numbers in which each place counts by another odd factor: any change of one number
    changes it. Computed where the tensor is. Integers add up to the same in any order."""
    total = 0
    bits: Any = tensor.detach().float().contiguous().reshape(-1).view(torch.int32)
    for part in bits.split(_AT_ONCE):
        factors = torch.arange(1, 2 * len(part), 2, dtype=torch.int64, device=part.device)
        total = (total * 31 + int((part.long() * factors).sum())) % 2**64
    return total


def _fixed_group(trainer: GroupTrainer) -> Group:
    """Calls of a few tokens that repeat, so that many terms are added to one row of the embedding. They count as
    sampled by the trainer's own weights, so that no correction leaves them out."""
    words = min(cast("Any", trainer.policy).config.get_text_config().vocab_size, 23)

    def call(rollout: int) -> TrainedCall:
        ids = [(7 * at + rollout) % words for at in range(_PROMPT + _ANSWER)]
        prompt, answer = ids[:_PROMPT], ids[_PROMPT:]
        logprobs = tuple(min(0.0, value) for value in trainer.logprobs(prompt, answer))
        return TrainedCall(tuple(prompt), tuple(answer), logprobs, (0,) * _ANSWER)

    rollouts = tuple(
        TrainedRollout(lease=at + 1, advantage=1.0 - at % 2 * 2, reward=0.0, calls=(call(at),))
        for at in range(_ROLLOUTS)
    )
    return Group(number=1, update=0, objective="grpo", alpha=0.0, max_staleness=0, rollouts=rollouts)
