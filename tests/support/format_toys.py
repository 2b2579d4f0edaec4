"""A Llama that is sure of the form of its answers and not of their choices, and groups that it sampled."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoModelForCausalLM

from pace_async.learn.trainer import GroupTrainer
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from scripts.benchmarks.toys import write_llama

VOCAB = 40
PROMPT, REPEATS = 6, 4
FORM = (30, 31, 32)
CHOICES = tuple(range(10, 18))
END = 1


def write_sure(folder: Path, *, dtype: torch.dtype = torch.float32) -> Path:
    """Trained for some seconds. In bfloat16 its weights lie on that type's grid, in float32 between its numbers."""
    write_llama(folder, vocab=VOCAB, width=64, layers=2)
    model: Any = cast("Any", AutoModelForCausalLM).from_pretrained(folder)
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(120):
        ids = torch.tensor([[*prompt, *answer] for prompt, answer in _texts(16, step)])
        logprobs = model(ids).logits[:, PROMPT - 1 : -1].log_softmax(-1)
        loss = -logprobs.gather(-1, ids[:, PROMPT:, None]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.to(dtype).save_pretrained(folder)
    return folder


def sampled_group(trainer: GroupTrainer, *, seed: int = 0, update: int = 0) -> Group:
    """Eight answers. One earns the more, the higher its first choice is."""
    rollouts = tuple(
        TrainedRollout(lease + 1, answer[len(FORM)] - 13.5, 0.0, (_call(trainer, prompt, answer, update),))
        for lease, (prompt, answer) in enumerate(_texts(8, 10_000 + seed))
    )
    return Group(update + 1, update, "grpo", 0.0, 2, rollouts)


def _call(trainer: GroupTrainer, prompt: Sequence[int], answer: Sequence[int], update: int) -> TrainedCall:
    logprobs = tuple(min(0.0, value) for value in trainer.logprobs(list(prompt), list(answer)))
    return TrainedCall(tuple(prompt), tuple(answer), logprobs, (update,) * len(answer))


def _texts(count: int, seed: int) -> list[tuple[list[int], list[int]]]:
    """Prompts and answers. Each answer repeats FORM and a choice."""
    draw = random.Random(seed)
    return [
        (
            [draw.randrange(18, 30) for _ in range(PROMPT)],
            [token for _ in range(REPEATS) for token in (*FORM, draw.choice(CHOICES))] + [END],
        )
        for _ in range(count)
    ]
