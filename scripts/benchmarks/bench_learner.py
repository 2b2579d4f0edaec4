"""Trained tokens a second: pace's learner beside a bare GRPOTrainer, on one ragged group, in one run.

    python scripts/benchmarks/bench_learner.py [--width 128 --layers 4 --rollouts 8 --calls 3 --repeats 3 --seed 0]

The group has `rollouts` × `calls` calls, with prompts of 200 to 400 tokens and answers of 50 to 800, sampled by the
model itself one small step ago. Both sides get the same weights, calls, advantages, ratios and clip, and one thread
each. The bare trainer is TRL's own: a generation batch padded to its longest prompt and its longest answer, shuffled,
and cut into micro-batches of `per_device_train_batch_size` rows. Only the generation itself is replaced. pace cuts by
`learner.micro_tokens`. The measured part is from the group to its gradient: forward, loss, backward. The two sides take
turns, and each side's fastest turn counts, to reduce the effect of other work on the machine. For the same reason the
rates are given by the wall clock and by this process's CPU time.

Prints the rates, their ratios, and the distance of the two gradients relative to their norm.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from pace_async.learn.correction import Correction
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import GroupTrainer, load_trainer
from pace_async.replay.group import Group, TrainedCall, TrainedRollout

VOCAB = 742
CONTEXT = 2048


def write_model(folder: Path, width: int, layers: int, seed: int) -> Path:
    """A Llama of the shape of the advisor in the package, with random weights."""
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
    )
    cast("Any", LlamaForCausalLM(config)).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"w{index}": index for index in range(VOCAB)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    cast("Any", PreTrainedTokenizerFast)(tokenizer_object=words, pad_token="w0", eos_token="w1").save_pretrained(folder)
    return folder


def ragged_group(rollouts: int, calls: int, seed: int) -> Group:
    """Calls of random tokens, with logprobs near those of an untrained model."""
    draws = np.random.default_rng(seed)

    def call() -> TrainedCall:
        prompt, answer = int(draws.integers(200, 401)), int(draws.integers(50, 801))
        return TrainedCall(
            tuple(draws.integers(2, VOCAB, prompt).tolist()),
            tuple(draws.integers(2, VOCAB, answer).tolist()),
            tuple((-np.log(VOCAB) + 0.1 * draws.standard_normal(answer)).tolist()),
            (0,) * answer,
        )

    return Group(
        number=1,
        update=0,
        objective="grpo",
        alpha=0.0,
        max_staleness=0,
        rollouts=tuple(
            TrainedRollout(lease, float(draws.standard_normal()), 0.0, tuple(call() for _ in range(calls)))
            for lease in range(1, rollouts + 1)
        ),
    )


class BareTrainer(GRPOTrainer):
    """TRL's trainer with its generation replaced by the group."""

    def __init__(self, model: Any, tokenizer: Any, group: Group, rows: int, out: Path) -> None:
        count = sum(len(rollout.calls) for rollout in group.rollouts)
        if count % rows:
            raise SystemExit(f"{count} calls cannot be cut into micro-batches of {rows} rows")
        arguments = GRPOConfig(
            output_dir=str(out),
            loss_type="dapo",
            num_iterations=1,
            beta=0.0,
            epsilon=0.2,
            epsilon_high=0.28,
            per_device_train_batch_size=rows,
            gradient_accumulation_steps=count // rows,
            steps_per_generation=count // rows,
            num_generations=2,
            disable_dropout=True,
            gradient_checkpointing=False,
            bf16=False,
            use_vllm=False,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        never_read = cast("Any", Dataset).from_dict({"prompt": [""]})
        cast("Any", super()).__init__(model, _never_called, arguments, never_read, processing_class=tokenizer)
        self.policy = model
        self.micro_steps = count // rows
        self._group_batch = _padded(group)

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        return dict(self._group_batch)

    def accumulate(self) -> float:
        """The gradient of the group's loss, left in the weights' `grad`."""
        self.policy.zero_grad()
        self.current_gradient_accumulation_steps = self.micro_steps
        trainer = cast("Any", self)
        return sum(float(trainer.training_step(self.policy, None, None)) for _ in range(self.micro_steps))


def _padded(group: Group) -> dict[str, torch.Tensor]:
    """The group padded as TRL pads generated text: prompts on the left, answers on the right, to the longest of
    each."""
    rows = [(rollout.advantage, call) for rollout in group.rollouts for call in rollout.calls]
    longest_prompt = max(len(call.prompt_ids) for _, call in rows)
    longest_answer = max(len(call.completion_ids) for _, call in rows)
    batch = {
        "prompt_ids": torch.zeros((len(rows), longest_prompt), dtype=torch.int64),
        "prompt_mask": torch.zeros((len(rows), longest_prompt), dtype=torch.int64),
        "completion_ids": torch.zeros((len(rows), longest_answer), dtype=torch.int64),
        "completion_mask": torch.zeros((len(rows), longest_answer), dtype=torch.int64),
        "old_per_token_logps": torch.zeros((len(rows), longest_answer)),
    }
    for row, (_, call) in enumerate(rows):
        prompt, answer = len(call.prompt_ids), len(call.completion_ids)
        batch["prompt_ids"][row, longest_prompt - prompt :] = torch.tensor(call.prompt_ids)
        batch["prompt_mask"][row, longest_prompt - prompt :] = 1
        batch["completion_ids"][row, :answer] = torch.tensor(call.completion_ids)
        batch["completion_mask"][row, :answer] = 1
        batch["old_per_token_logps"][row, :answer] = torch.tensor(call.logprobs)
    advantages = torch.tensor([advantage for advantage, _ in rows], dtype=torch.float32)
    return {**batch, "advantages": advantages, "num_items_in_batch": torch.tensor(float(group.tokens))}


def _never_called(**_: Any) -> list[float]:
    raise AssertionError("advantages come with the group")


def gradient_of(model: Any) -> torch.Tensor:
    return torch.cat([weight.grad.flatten() for weight in model.parameters()]).clone()


def distance(here: torch.Tensor, there: torch.Tensor) -> float:
    """Distance of two gradients relative to the norm of the second."""
    return float(((here - there).square().sum() / there.square().sum()).sqrt())


def both_sides(folder: Path, group: Group, *, rows: int, micro_tokens: int) -> tuple[GroupTrainer, BareTrainer]:
    """pace's trainer with the correction that TRL uses, and the bare trainer, both of the model in `folder`."""
    settings = TrainerConfig(micro_tokens=micro_tokens, correction=Correction(kind="behaviour", cap=None))
    ours = load_trainer(folder / "model", settings, folder)
    policy = cast("Any", AutoModelForCausalLM).from_pretrained(folder / "model", dtype=torch.float32)
    return ours, BareTrainer(policy, ours.processing_class, group, rows, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("width", 128), ("layers", 4), ("rollouts", 8), ("calls", 3), ("repeats", 3), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rows", type=int, default=8, help="the bare trainer's per_device_train_batch_size")
    parser.add_argument("--micro-tokens", type=int, default=TrainerConfig().micro_tokens)
    options = parser.parse_args()
    group = ragged_group(options.rollouts, options.calls, options.seed)
    with tempfile.TemporaryDirectory(prefix="pace-bench-") as name:
        folder = Path(name)
        write_model(folder / "model", options.width, options.layers, options.seed)
        ours, bare = both_sides(folder, group, rows=options.rows, micro_tokens=options.micro_tokens)
        turns: dict[str, list[tuple[float, float]]] = {"bare": [], "pace": []}
        for _ in range(options.repeats):
            for side, work in (("bare", bare.accumulate), ("pace", lambda: ours.accumulate(group)["loss"])):
                wall, cpu = time.perf_counter(), time.process_time()
                loss = work()
                turns[side].append((time.perf_counter() - wall, time.process_time() - cpu))
                print(
                    f"{side}: {turns[side][-1][0]:.2f} s, CPU {turns[side][-1][1]:.2f} s, loss {loss:.6f}", flush=True
                )
        apart = distance(gradient_of(ours.policy), gradient_of(bare.policy))
    ratios: list[float] = []
    for name, which in (("wall clock", 0), ("CPU time", 1)):
        rates = {side: group.tokens / min(turn[which] for turn in taken) for side, taken in turns.items()}
        ratios.append(rates["pace"] / rates["bare"])
        print(
            f"trained tokens a second, {name}: bare {rates['bare']:.0f}, pace {rates['pace']:.0f}: {ratios[-1]:.2f} ×"
        )
    print(f"gradients apart by {apart:.1e} of their norm")
    if ratios[0] < 1.3 or apart > 1e-4:
        raise SystemExit("expected at least 1.3 times, and gradients within 1e-4")


if __name__ == "__main__":
    main()
