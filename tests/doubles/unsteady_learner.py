"""`python -m tests.doubles.unsteady_learner`: a learner's process on a device that does not repeat sums exactly."""

import pytest
import torch

from pace_async.learn.trainer import GroupTrainer, StepResult
from pace_async.replay.group import Group

NUDGE, SEED = 3e-3, 23
"""By how much of itself a weight differs after each step, as if sums had been added in another order: enough to show in
bfloat16 too. A tenth of the weights does, each time another one. The draws are the same in every process."""


def make_unsteady(patch: pytest.MonkeyPatch, nudge: float = NUDGE) -> None:
    """Every step of a trainer in this process ends at slightly other weights than any step before it."""
    exact, generator = GroupTrainer.step, torch.Generator().manual_seed(SEED)

    def step(trainer: GroupTrainer, group: Group) -> StepResult:
        result = exact(trainer, group)
        with torch.no_grad():
            for weight in trainer.policy.parameters():
                if weight.requires_grad:
                    weight.mul_(1 + nudge * (torch.rand(weight.shape, generator=generator) < 0.1))
        return result

    patch.setattr(GroupTrainer, "step", step)


if __name__ == "__main__":
    from pace_async.learn.process import main

    with pytest.MonkeyPatch.context() as patch_for_the_learner:
        make_unsteady(patch_for_the_learner)
        main()
