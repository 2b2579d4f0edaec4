"""Predicted against measured memory of a training step, on a CPU: what `pace plan` counts, and what a process grows by.

python scripts/benchmarks/bench_footprint.py [--tokens 512]

A Llama of 134 million random weights is trained by the learner's own trainer, for all weights and adapters, with and
without recomputed activations. Each case is a process of its own, which takes a step to warm up. Then its growth over
another step is the highest resident memory (VmHWM, reset before the step) less that before it. The C library returns
freed memory at once (MALLOC_MMAP_THRESHOLD_), because otherwise much of the growth is memory that an earlier step left.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

CASES = [(lora, saving) for lora in (None, 16) for saving in (False, True)]
ANSWER, CALLS = 128, 2
SIZE = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}


def make_model(folder: Path) -> None:
    """Write the model and a tokenizer of a few words, which is never used."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from scripts.benchmarks.toys import write_llama

    write_llama(folder, vocab=64, width=32, layers=1)
    cast("Any", LlamaForCausalLM)(cast("Any", LlamaConfig)(**SIZE)).save_pretrained(folder)


def measured(model: Path, tokens: int, lora: int | None, saving: bool) -> float:
    """Bytes by which this process grows over a warmed step."""
    from pace_async.learn.settings import TrainerConfig
    from pace_async.learn.trainer import load_trainer
    from pace_async.replay.group import Group, TrainedCall, TrainedRollout

    prompt = tokens - ANSWER
    call = TrainedCall(tuple([5] * prompt), tuple([7] * ANSWER), tuple([-9.0] * ANSWER), tuple([0] * ANSWER))
    rollouts = tuple(TrainedRollout(lease, 1.0 if lease % 2 else -0.5, 0.0, (call,)) for lease in range(CALLS))
    group = Group(1, 0, "grpo", 0.0, 0, rollouts)
    settings = replace(TrainerConfig(lora_rank=lora, micro_tokens=tokens), gradient_checkpointing=saving)
    with tempfile.TemporaryDirectory() as out:
        trainer = load_trainer(model, settings, Path(out), model)
        assert trainer.step(group).reason == ""
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        assert trainer.step(group).reason == ""
        return _status("VmHWM") - before


def _status(name: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024.0


def predicted(model: Path, tokens: int, lora: int | None, saving: bool) -> float:
    """Gradient and passes, counted in a child process."""
    from pace_async.plan.counted import counted
    from pace_async.plan.step import StepShape

    step = counted(StepShape(str(model), 1, tokens, ANSWER, "fp32", saving, lora))
    return float(step.gradient + step.passes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=512, help="of a call")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        model, lora, saving = json.loads(options.case)
        print(measured(Path(model), options.tokens, lora, saving))
        return
    print("trained       recomputed  counted MiB  measured MiB  measured / counted", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        make_model(model)
        for lora, saving in CASES:
            case = json.dumps([str(model), lora, saving])
            done = subprocess.run(
                [sys.executable, __file__, "--tokens", str(options.tokens), "--case", case],
                env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                check=True,
            )
            grown, count = float(done.stdout.splitlines()[-1]), predicted(model, options.tokens, lora, saving)
            name = "all weights" if lora is None else f"adapters {lora}"
            print(
                f"{name:<14}{saving!s:<12}{count / 2**20:>11,.0f}{grown / 2**20:>14,.0f}{grown / count:>20.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
