"""`python -m tests.doubles.scarce_memory MOST …`: a learner's process on a device whose memory holds a pass of at most
MOST tokens, padding counted."""

import sys
from typing import Any

import pytest
import torch

from pace_async.learn.trainer import GroupTrainer


def limit_passes(patch: pytest.MonkeyPatch, most: int) -> None:
    """A larger pass fails as on a card, in the middle of the step."""
    exact: Any = GroupTrainer._score

    def score(trainer: Any, model: Any, input_ids: torch.Tensor, *given: Any, **named: Any) -> Any:
        if input_ids.numel() > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 37.20 GiB.\nSee documentation.")
        return exact(trainer, model, input_ids, *given, **named)

    patch.setattr(GroupTrainer, "_score", score)


if __name__ == "__main__":
    from pace_async.learn.process import main

    with pytest.MonkeyPatch.context() as patch_for_the_learner:
        limit_passes(patch_for_the_learner, int(sys.argv.pop(1)))
        main()
