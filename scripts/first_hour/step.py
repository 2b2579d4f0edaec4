"""One real training step: `python -m scripts.first_hour.step STEP [SETTINGS]`, STEP being a `StepShape` as JSON, and
SETTINGS the learner's of a run, with its limits. The shape goes before them.

Prints JSON: `tokens` and `seconds` of a warmed step, and `peak`, the most bytes that torch had on the card, None on a
CPU. It is a separate process, so that nothing else is on the card.
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from pace_async.learn.settings import TrainerConfig, half_the_cores
from pace_async.learn.trainer import load_trainer
from pace_async.plan.step import StepShape
from pace_async.replay.group import Group, TrainedCall, TrainedRollout

_ROLLOUTS = 2


def group_of(shape: StepShape) -> Group:
    """Calls of the longest length, as many as one pass takes, and at least two, whose advantages differ."""
    prompt = shape.tokens - shape.answers

    def call(rollout: int) -> TrainedCall:
        ids = [5 + (at + rollout) % 11 for at in range(shape.tokens)]
        zeros = (0,) * shape.answers
        return TrainedCall(tuple(ids[:prompt]), tuple(ids[prompt:]), (-9.0,) * shape.answers, zeros)

    count = max(_ROLLOUTS, shape.rows)
    rollouts = (TrainedRollout(at + 1, 1.0 - at % 2 * 2.0, 0.0, (call(at),)) for at in range(count))
    return Group(1, 0, "grpo", 0.0, 0, tuple(rollouts))


def main() -> None:
    shape = StepShape.from_json(sys.argv[1])
    settings = replace(
        TrainerConfig.from_json(sys.argv[2]) if len(sys.argv) > 2 else TrainerConfig(),
        warmup=0,
        micro_tokens=shape.tokens * shape.rows,
        gradient_checkpointing=shape.gradient_checkpointing,
        precision=shape.precision,
        lora_rank=shape.lora_rank,
        head_chunk=shape.head_chunk,
        kl_penalty=0.01 if shape.reference else 0.0,
        threads=half_the_cores(),
    )
    group, on_card = group_of(shape), torch.cuda.is_available()
    with tempfile.TemporaryDirectory() as out:
        trainer = load_trainer(Path(shape.model), settings, Path(out), Path(shape.model))
        first = trainer.step(group)
        if on_card:
            torch.cuda.reset_peak_memory_stats()
        second = trainer.step(group)
    if first.reason or second.reason:
        sys.exit(f"the step was not taken: {first.reason or second.reason}")
    tokens = sum(len(one.prompt_ids) + len(one.completion_ids) for rollout in group.rollouts for one in rollout.calls)
    peak = torch.cuda.max_memory_allocated() if on_card else None
    print(json.dumps({"tokens": tokens, "seconds": second.seconds, "peak": peak}))


if __name__ == "__main__":
    main()
