"""Measures whether answers that were cut off at their longest length should train (`learner.mask_cut_off`), on a toy.

    python research/benchmarks/bench_cut_off.py --jobs 2

The toy is the bandit of `toys.py` with thoughts: an answer is any number of thoughts, one of eight mechanisms, and an
end. One mechanism is rewarded with 1. Everything else, a cut answer too, has 0. In half of the arms thoughts change
nothing, and in the other half the reward needs four of them. Before its training the model goes on thinking with one
probability at every place, so that a share of its answers exceeds eight tokens. The real learner is given 80 groups of
8. The advantages are always of all eight. The script prints, each with its 95 % interval over the seeds, the
probability of the reward in the mean over the groups and after the last, the share that is cut off after the last, and
what masking changes, paired by seed. Nothing of it is sampled: the few possible answers are all counted.
"""

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from research.benchmarks.bench_runs import interval

if TYPE_CHECKING:
    from pace_async.replay.group import Group, TrainedCall

THOUGHT, END = 12, 1
LONGEST = 8
MOST_THOUGHTS = LONGEST - 2
NEEDED = 4
GROUPS = 80


@dataclass(frozen=True, slots=True)
class Arm:
    """One row of the table. `cut`: the share of answers that are cut off before the training."""

    needed: int
    cut: float
    masked: bool
    rate: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cut", default="0.2,0.6", help="shares of answers that are cut off at the start")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--seeds", type=int, default=16, help="runs of each kind")
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    shares = [float(share) for share in chosen.cut.split(",")]
    arms = [Arm(*values) for values in product((0, NEEDED), shares, (False, True), [chosen.rate])]
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    runs = [(arm, seed) for arm in arms for seed in range(chosen.seeds)]
    with tempfile.TemporaryDirectory(prefix="pace-cut-off-") as name, ProcessPoolExecutor(chosen.jobs) as pool:
        novices = {share: pool.submit(write_thinker, Path(name) / str(share), share) for share in shares}
        folders = [novices[arm.cut].result() for arm, _ in runs]
        curves = list(pool.map(_run, folders, *zip(*runs, strict=True), chunksize=chosen.seeds))
    print("| thoughts needed | cut off at the start | | reward, mean | reward, last | cut off, last |")
    print("|---|---|---|---|---|---|")
    for needed, share in product((0, NEEDED), shares):
        trained, masked = (
            np.array([_figures(curve) for (arm, _), curve in zip(runs, curves, strict=True) if arm == wanted])
            for wanted in (Arm(needed, share, mask, chosen.rate) for mask in (False, True))
        )
        for name, figures in (("trained", trained), ("masked", masked), ("paired difference", masked - trained)):
            print(f"| {needed} | {share} | {name} | " + " | ".join(map(interval, figures.T)) + " |")
    return 0


def _figures(curve: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """The reward in the mean over the groups and after the last, and the share cut off after the last."""
    return float(np.mean([reward for reward, _ in curve])), *curve[-1]


def write_thinker(folder: Path, cut: float) -> Path:
    """A model that thinks on with one probability at every place, so that this share of its answers is cut off, and
    names all mechanisms with the same one."""
    import torch
    from transformers import LlamaForCausalLM

    from scripts.benchmarks.toys import MECHANISMS, PROMPT, VOCABULARY, write_llama

    write_llama(folder, vocab=VOCABULARY, width=32, layers=1)
    model: Any = cast("Any", LlamaForCausalLM).from_pretrained(folder)
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-2)
    thinking, thinks = torch.zeros(VOCABULARY), cut ** (1 / (MOST_THOUGHTS + 1))
    thinking[THOUGHT], thinking[list(MECHANISMS)] = thinks, (1 - thinks) / len(MECHANISMS)
    first = len(PROMPT) - 1
    for _ in range(300):
        loss: Any = torch.zeros(())
        for thoughts in range(LONGEST):
            rows = torch.tensor([[*PROMPT, *[THOUGHT] * thoughts, mechanism] for mechanism in MECHANISMS])
            scores = model(rows).logits.log_softmax(-1)
            loss = loss - (scores[:, first:-1] * thinking).sum(-1).mean() - scores[:, -1, END].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    return folder


def rewarded_and_cut(model: Any, right: int, needed: int) -> tuple[float, float]:
    """The probability of the reward, and that of an answer that is not one within the longest length."""
    import torch

    from scripts.benchmarks.toys import MECHANISMS, PROMPT

    reward, answered, so_far = 0.0, 0.0, 1.0
    for thoughts in range(MOST_THOUGHTS + 1):
        rows = torch.tensor([[*PROMPT, *[THOUGHT] * thoughts, mechanism] for mechanism in MECHANISMS])
        with torch.no_grad():
            shares = model(rows).logits[:, -2:].softmax(-1)
        ends = {
            mechanism: so_far * float(shares[place, 0, mechanism] * shares[place, 1, END])
            for place, mechanism in enumerate(MECHANISMS)
        }
        answered += sum(ends.values())
        reward += ends[right] if thoughts >= needed else 0.0
        so_far *= float(shares[0, 0, THOUGHT])
    return reward, 1 - answered


def next_group(calls: "Sequence[TrainedCall]", number: int, newest: int, right: int, arm: Arm) -> "Group | None":
    """The group as the learner gets it, or None if it teaches nothing."""
    from pace_async.objectives.base import Collapsed, Parameters
    from pace_async.objectives.grpo import grpo
    from pace_async.replay.group import Group, TrainedRollout

    answers = [call.completion_ids for call in calls]
    whole = [[*[THOUGHT] * (len(answer) - 2), right, END] for answer in answers]
    rewards = [
        float(list(answer) == wanted and len(answer) - 2 >= arm.needed)
        for answer, wanted in zip(answers, whole, strict=True)
    ]
    advantages = grpo(np.array(rewards), Parameters(k=1))
    if isinstance(advantages, Collapsed):
        return None
    rollouts = tuple(
        TrainedRollout(number * len(calls) + place, float(advantage), reward, (call,))
        for place, (call, advantage, reward) in enumerate(zip(calls, advantages, rewards, strict=True))
        if not arm.masked or END in call.completion_ids
    )
    if not any(rollout.advantage for rollout in rollouts):
        return None
    return Group(number, newest, "grpo", 0.0, 0, rollouts)


def _run(novice: Path, arm: Arm, seed: int) -> list[tuple[float, float]]:
    """The reward's probability and the share cut off, after each group."""
    import torch
    from transformers.utils.logging import disable_progress_bar

    from pace_async.learn.settings import TrainerConfig
    from pace_async.learn.trainer import load_trainer
    from scripts.benchmarks.toys import MECHANISMS, copied, sample

    logging.disable(logging.WARNING)
    disable_progress_bar()
    right, draws = MECHANISMS[seed % len(MECHANISMS)], torch.Generator().manual_seed(seed)
    with tempfile.TemporaryDirectory() as out:
        trainer = load_trainer(novice, TrainerConfig(learning_rate=arm.rate), Path(out))
        policy, newest = copied(trainer.policy), 0
        curve: list[tuple[float, float]] = []
        for number in range(1, GROUPS + 1):
            calls = sample(policy, newest, draws, LONGEST)
            group = next_group(calls, number, newest, right, arm)
            if group is not None and not trainer.step(group).reason:
                policy, newest = copied(trainer.policy), newest + 1
            curve.append(rewarded_and_cut(policy, right, arm.needed))
        return curve


if __name__ == "__main__":
    sys.exit(main())
