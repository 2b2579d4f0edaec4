"""Predicted against measured memory of a training step, on a CPU: what `pace plan` counts, and what a process grows by.

python scripts/benchmarks/bench_footprint.py [--tokens 512 --answer 128 --vocabulary 49152 --layers 30 --head-chunk 0]

A Llama, of 134 million random weights by default, is trained by the learner's own trainer, for all weights and
adapters, with and without recomputed activations. Each case is a process of its own, which takes a step to warm up.
Then its growth over another step is the highest resident memory (VmHWM, reset before the step) less that before it. The
C library returns freed memory at once (MALLOC_MMAP_THRESHOLD_), because otherwise much of the growth is memory that an
earlier step left. Seconds are processor time of that step.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

CASES = [(lora, saving) for lora in (None, 16) for saving in (False, True)]
CALLS = 2
SIZE = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}


@dataclass(frozen=True)
class Case:
    """A call has `tokens` tokens, of which the last `answer` are scored."""

    tokens: int
    answer: int
    head_chunk: int | None
    lora: int | None = None
    saving: bool = False


def make_model(folder: Path, vocabulary: int, layers: int) -> None:
    """Write the model and a tokenizer of a few words, which is never used."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from scripts.benchmarks.toys import write_llama

    write_llama(folder, vocab=64, width=32, layers=1)
    config = cast("Any", LlamaConfig)(**SIZE, vocab_size=vocabulary, num_hidden_layers=layers)
    cast("Any", LlamaForCausalLM)(config).save_pretrained(folder)


def measured(model: Path, case: Case) -> tuple[float, float]:
    """Bytes by which this process grows over a warmed step, and the step's processor time in seconds."""
    from pace_async.learn.settings import TrainerConfig
    from pace_async.learn.trainer import load_trainer
    from pace_async.replay.group import Group, TrainedCall, TrainedRollout

    prompt, answer = case.tokens - case.answer, case.answer
    call = TrainedCall(tuple([5] * prompt), tuple([7] * answer), tuple([-9.0] * answer), tuple([0] * answer))
    rollouts = tuple(TrainedRollout(lease, 1.0 if lease % 2 else -0.5, 0.0, (call,)) for lease in range(CALLS))
    group = Group(1, 0, "grpo", 0.0, 0, rollouts)
    settings = TrainerConfig(
        lora_rank=case.lora,
        micro_tokens=case.tokens,
        gradient_checkpointing=case.saving,
        head_chunk=case.head_chunk,
    )
    with tempfile.TemporaryDirectory() as out:
        trainer = load_trainer(model, settings, Path(out), model)
        assert trainer.step(group).reason == ""
        Path("/proc/self/clear_refs").write_text("5")
        before, began = _status("VmRSS"), time.process_time()
        assert trainer.step(group).reason == ""
        return _status("VmHWM") - before, time.process_time() - began


def _status(name: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024.0


def predicted(model: Path, case: Case) -> float:
    """Gradient and passes, counted in a child process."""
    from pace_async.plan.counted import count_step
    from pace_async.plan.step import StepShape

    step = count_step(
        StepShape(str(model), 1, case.tokens, case.answer, "fp32", case.saving, case.lora, head_chunk=case.head_chunk)
    )
    return float(step.gradient + step.passes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=512, help="of a call")
    parser.add_argument("--answer", type=int, default=128, help="tokens of it that are scored")
    parser.add_argument("--vocabulary", type=int, default=49152)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--head-chunk", type=int, help="as learner.head_chunk")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        model, case = json.loads(options.case)
        print(json.dumps(measured(Path(model), Case(**case))))
        return
    print("trained       recomputed  counted MiB  measured MiB  measured / counted  seconds", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        make_model(model, options.vocabulary, options.layers)
        for lora, saving in CASES:
            case = Case(options.tokens, options.answer, options.head_chunk, lora, saving)
            done = subprocess.run(
                [sys.executable, __file__, "--case", json.dumps([str(model), asdict(case)])],
                env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                check=True,
            )
            grown, seconds = json.loads(done.stdout.splitlines()[-1])
            count = predicted(model, case)
            name = "all weights" if lora is None else f"adapters {lora}"
            print(
                f"{name:<14}{saving!s:<12}{count / 2**20:>11,.0f}{grown / 2**20:>14,.0f}{grown / count:>20.3f}"
                f"{seconds:>9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
