"""Measures how far the learner's log-probabilities in bfloat16 are from vLLM's, with logits rounded and in float32.

    python research/benchmarks/head_types.py ~/.cache/pace/smollm2-135m

The model is written in bfloat16 to a temporary folder and served by vLLM with either head. Each server's answers, at
temperature 1, are scored by the learner with either head. Printed are, for each of the four pairs, the mean of k3 over
the tokens with a 95 % interval over the answers, its 99th percentile, and the mean distance in nats.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pace_async.advise.base import Completion
from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.served_copy import serve_from
from pace_async.advise.engines.vllm_found import Build, find_vllm
from pace_async.advise.engines.vllm_managed import VllmHandle, VllmSettings
from pace_async.errors import UsageError
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import load_trainer
from pace_async.publish.file import FilePublisher
from pace_async.weights import COMPLETE

PROMPTS = (
    "The fastest way to pack circles of different sizes into a square is",
    "def shortest_path(graph, start, goal):\n",
    "1. Replace the random restarts by a schedule that",
    "To schedule transactions with few conflicts, one should first",
)


async def sampled(given: Path, folder: Path, build: Build, answers: int, tokens: int, *, float32: bool) -> list[Any]:
    """Prompts and the answers to them, as they come from a server of the model in `given`."""
    settings = VllmSettings(kv_cache_gib=0.5 if build.device == "cpu" else None, threads=2, float32_head=float32)
    handle, found = VllmHandle(build, settings, log=folder / "engine.log", start_s=900.0), list[Any]()
    await handle.start(serve_from(given, folder / f"served-{float32}"))
    try:
        async with HttpEngine(handle.url, timeout_s=900.0) as engine, FilePublisher(handle.url) as publisher:
            await publisher.publish(1, given)

            async def ask(number: int) -> None:
                prompt = await engine.encode(PROMPTS[number % len(PROMPTS)])
                found.append((prompt, await engine.generate(prompt, max_tokens=tokens, temperature=1.0, seed=number)))

            for begin in range(0, answers, settings.requests):
                async with anyio.create_task_group() as group:
                    for number in range(begin, min(answers, begin + settings.requests)):
                        group.start_soon(ask, number)
    finally:
        await handle.stop()
    return found


def apart(trainer: Any, asked: Sequence[tuple[Sequence[int], Completion]]) -> list[npt.NDArray[np.float64]]:
    """The learner's log-probabilities less the engine's, of each answer's tokens."""
    return [
        np.array(trainer.logprobs(list(prompt), list(answer.token_ids))) - np.array(answer.logprobs)
        for prompt, answer in asked
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--answers", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    chosen, build = parser.parse_args(), find_vllm()
    if not isinstance(build, Build):
        raise UsageError(f"vLLM is not here: {build}")
    with TemporaryDirectory() as made:
        folder, given = Path(made), Path(made) / "model"
        loader: Any = AutoModelForCausalLM
        loader.from_pretrained(chosen.model, dtype=torch.bfloat16, local_files_only=True).save_pretrained(given)
        tokens: Any = AutoTokenizer
        tokens.from_pretrained(chosen.model, local_files_only=True).save_pretrained(given)
        (given / COMPLETE).touch()
        settings = TrainerConfig(precision="bf16", threads=2, max_length=chosen.tokens + 64)
        trainers = {
            float32: load_trainer(given, replace(settings, float32_head=float32), folder / f"learner-{float32}")
            for float32 in (False, True)
        }
        for of_engine in (False, True):
            asked = anyio.run(partial(sampled, given, folder, build, chosen.answers, chosen.tokens, float32=of_engine))
            for of_learner, trainer in trainers.items():
                away = apart(trainer, asked)
                k3 = [np.exp(one) - 1 - one for one in away]
                means, every = [float(one.mean()) for one in k3], np.concatenate(k3)
                half, nats = 2 * np.std(means, ddof=1) / len(means) ** 0.5, np.abs(np.concatenate(away)).mean()
                print(
                    f"float32 head: vLLM {of_engine}, learner {of_learner}: k3 {np.mean(means):.3g} ± {half:.2g}, "
                    f"99th percentile {np.quantile(every, 0.99):.3g}, {nats:.4f} nats apart, {len(every)} tokens",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
