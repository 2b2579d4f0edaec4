"""Groups for the tests of learning, ragged and of random tokens, and gradients."""

from pathlib import Path

import numpy as np
from torch import Tensor, nn

from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from pace_async.replay.groupfile import group_path, write_group

VOCAB = 40
"""Tokens of the model of these tests."""


def random_group(
    *,
    vocab: int = VOCAB,
    seed: int = 0,
    update: int = 0,
    number: int = 1,
    rollouts: int = 8,
    calls: int = 3,
    prompt: tuple[int, int] = (5, 20),
    answer: tuple[int, int] = (2, 9),
    logprob: float | None = None,
    max_age: int = 0,
) -> Group:
    """Ragged calls of random tokens. Logprobs near ln(1/vocab), or `logprob` for each token."""
    draws = np.random.default_rng(seed)

    def call() -> TrainedCall:
        p, t = draws.integers(*prompt, endpoint=True), draws.integers(*answer, endpoint=True)
        near = -np.log(vocab) + 0.3 * draws.standard_normal(t)
        return TrainedCall(
            tuple(draws.integers(2, vocab, p).tolist()),
            tuple(draws.integers(1, vocab, t).tolist()),
            tuple(near.clip(max=0).tolist() if logprob is None else [logprob] * t),
            tuple((update - draws.integers(0, min(max_age, update), t, endpoint=True)).tolist()),
        )

    return Group(
        number=number,
        update=update,
        objective="grpo",
        alpha=0.0,
        max_staleness=2,
        rollouts=tuple(
            TrainedRollout(
                lease=lease,
                advantage=float(draws.standard_normal()),
                reward=float(draws.uniform(-1, 5)),
                calls=tuple(call() for _ in range(int(draws.integers(1, calls, endpoint=True)))),
            )
            for lease in range(1, rollouts + 1)
        ),
    )


def written_groups(folder: Path, count: int, *, vocab: int = VOCAB) -> list[Path]:
    """Files of the groups that train versions 1, 2, …, each of four rollouts."""
    paths = [group_path(folder, update + 1) for update in range(count)]
    for update, path in enumerate(paths):
        write_group(path, random_group(vocab=vocab, seed=update, update=update, number=update + 1, rollouts=4))
    return paths


def gradient_of(weight: nn.Parameter) -> Tensor:
    """The gradient that a backward pass left."""
    assert weight.grad is not None
    return weight.grad
