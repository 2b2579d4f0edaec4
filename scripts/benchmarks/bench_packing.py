"""What packing saves: tokens and passes of a group, and processor seconds of its gradient.

    python scripts/benchmarks/bench_packing.py [--width 256 --layers 4 --repeats 3 --groups 200 --seed 0]
    python scripts/benchmarks/bench_packing.py --group RUN/groups/000002.safetensors --micro-tokens 4096

Without --group: groups of simulated lengths, log-normal around the medians below. For each kind the first table has
means over many groups: tokens that the passes of a group compute, as a multiple of those of its calls, and passes. The
second has the processor seconds of one group's gradient, padded and packed, in turns, on a Llama of random weights with
one thread. The fastest turn of each counts. Gradients are compared.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from pace_async.learn.batch import micro_batches
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import GroupTrainer, load_trainer
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from pace_async.replay.groupfile import read_digested
from scripts.benchmarks.bench_learner import distance, gradient_of
from scripts.benchmarks.toys import write_llama

VOCABULARY = 2048


@dataclass(frozen=True, slots=True)
class Kind:
    """Medians of prompt and answer in tokens, spreads of their logarithms, the longest answer, calls of a group, and
    learner.micro_tokens."""

    name: str
    prompt: tuple[int, float]
    answer: tuple[int, float]
    longest: int
    calls: int
    budget: int


KINDS = (
    Kind("one call a candidate, answers of 300", (900, 0.2), (300, 0.7), 1024, 8, 4096),
    Kind("three calls, answers of 400", (1500, 0.3), (400, 0.8), 2048, 24, 8192),
    Kind("one call, answers of 1,500", (3000, 0.15), (1500, 0.8), 4096, 8, 12288),
    Kind("one call, thinking of 4,000", (2000, 0.2), (4000, 0.8), 8192, 8, 12288),
)


def simulated(kind: Kind, draws: np.random.Generator) -> Group:
    """A group of random tokens with lengths of this kind."""

    def call() -> TrainedCall:
        prompt, answer = (
            int(median * np.exp(spread * draws.standard_normal())) for median, spread in (kind.prompt, kind.answer)
        )
        answer = min(max(answer, 16), kind.longest)
        prompt_ids, completion_ids = (tuple(draws.integers(2, VOCABULARY, size).tolist()) for size in (prompt, answer))
        return TrainedCall(prompt_ids, completion_ids, (-float(np.log(VOCABULARY)),) * answer, (0,) * answer)

    rollouts = 8
    return Group(
        1,
        0,
        "grpo",
        0.0,
        2,
        tuple(
            TrainedRollout(
                lease, float(draws.standard_normal()), 0.0, tuple(call() for _ in range(kind.calls // rollouts))
            )
            for lease in range(1, rollouts + 1)
        ),
    )


def counted(group: Group, budget: int, *, packs: bool) -> tuple[int, int]:
    """Tokens that the passes of a group compute, and passes."""
    batches = micro_batches(group, budget, 0, packs=packs)
    if packs:
        return sum(sum(batch.lengths) for batch in batches), len(batches)
    return sum(batch.prompt_ids_BP.size + batch.rest_ids_BT.size for batch in batches), len(batches)


def tokens_of(groups: Sequence[Group], budget: int) -> str:
    """The cells of a row: tokens and passes, padded and packed."""
    cells: list[str] = []
    for packs in (False, True):
        pairs = [counted(group, budget, packs=packs) for group in groups]
        shares = [
            tokens / counted(group, budget, packs=True)[0] for group, (tokens, _) in zip(groups, pairs, strict=True)
        ]
        cells.append(f"{np.mean(shares):.3f} | {np.mean([passes for _, passes in pairs]):.1f}")
    return " | ".join(cells)


def seconds_of(sides: Sequence[GroupTrainer], group: Group, repeats: int) -> str:
    """The cells of a row: processor seconds padded and packed, their ratio, and the distance of the gradients."""
    turns: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats):
        for side, taken in zip(sides, turns, strict=True):
            began = time.process_time()
            side.accumulate(group)
            taken.append(time.process_time() - began)
    padded, packed = (min(taken) for taken in turns)
    apart = distance(gradient_of(sides[1].policy), gradient_of(sides[0].policy))
    return f"{padded:.1f} s | {packed:.1f} s | {padded / packed:.2f} | {apart:.0e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("width", 256), ("layers", 4), ("repeats", 3), ("groups", 200), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--group", type=Path, help="a group file of a run, in place of simulated lengths")
    parser.add_argument("--micro-tokens", type=int, default=TrainerConfig().micro_tokens, help="of --group")
    options = parser.parse_args()
    draws = np.random.default_rng(options.seed)
    rows: list[tuple[str, list[Group], int]] = []
    if options.group is not None:
        rows.append((options.group.name, [read_digested(options.group)[0]], options.micro_tokens))
    else:
        rows += [(kind.name, [simulated(kind, draws) for _ in range(options.groups)], kind.budget) for kind in KINDS]
    print("| group | tokens, padded | passes | tokens, packed | passes |\n|---|---|---|---|---|")
    for name, groups, budget in rows:
        print(f"| {name} | {tokens_of(groups, budget)} |", flush=True)
    print("\n| group | padded | packed | ratio | gradients apart |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="pace-bench-") as folder:
        model = write_llama(Path(folder) / "model", vocab=VOCABULARY, width=options.width, layers=options.layers)
        for name, groups, budget in rows:
            rule = TrainerConfig(micro_tokens=budget, max_length=budget)
            sides = [load_trainer(model, replace(rule, packing=packing), Path(folder)) for packing in ("off", "auto")]
            for side in sides:
                side.policy.config.max_position_embeddings = budget
            print(f"| {name} | {seconds_of(sides, groups[0], options.repeats)} |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
