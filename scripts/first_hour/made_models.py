"""Models for measuring, made here: one with random weights of a published shape, and a small one that learned bytes.

Random weights are enough for memory and seconds. How far a step moves a policy needs one that learned something.
"""

import shutil
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

ROOT = Path(__file__).parents[2]
TOKENIZER = ROOT / "pace_async" / "advise" / "reader"
LEAST_STEPS = 100
"""Before them a model of bytes writes hardly any letter, so its rewards are equal and teach it nothing."""
FIRST_BYTE = 3
"""Token of byte 0. The tokens before it are the ends of a text and padding."""


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def random_model(shape: Path, folder: Path) -> Path:
    """A model of the config.json in `shape`, in bfloat16 with random weights, made where it will be used. Returns
    `folder`. Its tokenizer is the packaged advisor's: it makes the folder whole, and its texts mean nothing here."""
    folder.mkdir(parents=True)
    config = cast("Any", AutoConfig).from_pretrained(shape)
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    with torch.device(device()):
        model = cast("Any", AutoModelForCausalLM).from_config(config, dtype=torch.bfloat16)
    return _saved(model, folder)


def byte_model(folder: Path, seconds: float) -> tuple[Path, float]:
    """A model of bytes that read this repository's own text for `seconds`, and for LEAST_STEPS at least: 30 million
    weights on a card, 100,000 without one. Returns its folder and the last loss in nats a byte."""
    folder.mkdir(parents=True)
    width, layers = (512, 8) if device() == "cuda" else (64, 2)
    config = cast("Any", AutoConfig).for_model(
        "qwen3",
        vocab_size=256 + FIRST_BYTE,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=width // 8,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
    )
    text = corpus()
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    model = cast("Any", AutoModelForCausalLM).from_config(config, dtype=torch.float32).to(device())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    tokens, rows = (512, 128) if device() == "cuda" else (64, 4)
    began, losses = time.perf_counter(), list[float]()
    while len(losses) < LEAST_STEPS or time.perf_counter() - began < seconds:
        starts = cast("list[int]", cast("Any", torch.randint(0, len(text) - tokens, (rows,))).tolist())
        ids = torch.stack([text[start : start + tokens] for start in starts]).to(device())
        with torch.autocast(device(), torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        cast("Any", optimizer).step()
        losses.append(float(loss.detach()))
    return _saved(model.to(torch.bfloat16), folder), sum(losses[-20:]) / len(losses[-20:])


@cache
def corpus() -> torch.Tensor:
    """The package's sources and the documentation, as tokens."""
    files = (path for top in ("pace_async", "docs") for path in sorted((ROOT / top).rglob("*")))
    text = b"".join(path.read_bytes() for path in files if path.suffix in (".py", ".md"))
    return torch.tensor(np.frombuffer(text, np.uint8).astype(np.int64) + FIRST_BYTE)


def answers(
    policy: Any, prompt: Sequence[int], rollouts: int, length: int, seed: int, *, half: bool
) -> list[list[int]]:
    """So many answers of `length` tokens to one prompt, drawn at temperature 1."""
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
    ids, was_training = torch.tensor([list(prompt)] * rollouts, device=device()), policy.training
    policy.eval()
    with torch.no_grad(), torch.autocast(device(), torch.bfloat16, enabled=half):
        drawn = policy.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=length,
            min_new_tokens=length,
            do_sample=True,
            top_k=0,
        )
    policy.train(was_training)
    return [row[len(prompt) :].tolist() for row in drawn]


def _saved(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / name, folder / name)

    return folder
