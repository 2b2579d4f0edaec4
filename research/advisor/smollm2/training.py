"""Warm-starts a language model on the tiny advisor's corpus, on a CPU, so that its answers can be parsed.

It has to learn a format and what to copy, which a pretrained model can nearly do. So only the upper layers are trained.
The layers below are not differentiated, which saves a third of the work. The embedding, a fifth of the weights, keeps
the model's knowledge of words. A row is one prompt and several answers side by side (see `tiny_advisor.training`),
because reading a prompt costs as much as four proposals.

Not reinforcement learning, and not a measure of how good the ideas are.
"""

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from research.advisor.tiny_advisor import corpus
from research.advisor.tiny_advisor.training import Row, answer_losses, row, side_by_side
from research.advisor.tiny_advisor.worlds import World

_torch = cast("Any", torch)


@dataclass(frozen=True, slots=True)
class Recipe:
    """`rows` prompts make one step. `layers` is the number of upper layers that are trained, with the last norm.
    `answers` is the number of proposals side by side."""

    steps: int = 300
    rows: int = 2
    layers: int = 15
    answers: int = 3
    learning_rate: float = 5e-4
    warmup: int = 10
    made_up: float = 0.2
    seed: int = 0


@dataclass(slots=True)
class Spent:
    """The cost of training so far, over all of its starts: seconds of the clock, and of all processors together."""

    steps: int = 0
    tokens: int = 0
    wall_s: float = 0.0
    processor_s: float = 0.0


def examples(worlds: Sequence[World], recipe: Recipe) -> Iterator[corpus.Example]:
    """An endless sequence with a third of each kind, because a rollout needs a parsed answer of every kind."""
    rng = random.Random(recipe.seed)
    while True:
        state = corpus.random_state(corpus.random_world(worlds, rng, recipe.made_up, 12, invented_too=False), rng)
        draw = rng.random()
        if draw < 1 / 3:
            yield corpus.propose_example(state, rng, recipe.answers)
        elif draw < 2 / 3:
            yield corpus.assess_example(state, corpus.random_proposals(state, rng, 0.2))
        else:
            yield corpus.select_example(state, corpus.random_proposals(state, rng, 0.15))


def train(
    model: LlamaForCausalLM,
    tokenizer: Tokenizer,
    end_token: str,
    worlds: Sequence[World],
    recipe: Recipe,
    state: Path,
    report: Callable[[str], None],
    save_every_s: float = 180.0,
) -> Spent:
    """Train in place. Goes on from the file `state` if there is one of the same recipe, and writes it at intervals."""
    trained = _trained(model, recipe.layers)
    optimizer = torch.optim.AdamW(trained.values(), lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    spent = _resume(state, recipe, trained, optimizer)
    source = examples(worlds, recipe)
    for _ in range(spent.steps * recipe.rows):
        next(source)
    model.train()
    average = right = math.nan
    saved = time.monotonic()
    while spent.steps < recipe.steps:
        wall, processor = time.monotonic(), time.process_time()
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * _pace(spent.steps, recipe)
        rows = [row(tokenizer, next(source), end_token) for _ in range(recipe.rows)]
        loss, hits = _step(model, rows, list(trained.values()), optimizer)
        spent.steps += 1
        spent.tokens += sum(len(one.ids) for one in rows)
        spent.wall_s += time.monotonic() - wall
        spent.processor_s += time.process_time() - processor
        average = loss if math.isnan(average) else average + 0.1 * (loss - average)
        right = hits if math.isnan(right) else right + 0.1 * (hits - right)
        if spent.steps % 5 == 0:
            minutes = f"{spent.wall_s / 60:.1f} min, {spent.processor_s / 60:.1f} of processor time"
            speed = f"{spent.tokens / spent.processor_s:.0f} tokens a processor second"
            report(f"step {spent.steps}  {minutes}  {speed}  loss {average:.3f}  top-1 {right:.3f}")
        if time.monotonic() - saved > save_every_s or spent.steps == recipe.steps:
            _save(state, recipe, trained, optimizer, spent)
            saved = time.monotonic()
    model.eval()
    return spent


def _trained(model: LlamaForCausalLM, layers: int) -> dict[str, torch.nn.Parameter]:
    """The parameters of the upper layers and the last norm, by name. All others are frozen."""
    first = model.config.num_hidden_layers - layers
    ours = ["model.norm.", *(f"model.layers.{number}." for number in range(first, model.config.num_hidden_layers))]
    chosen: dict[str, torch.nn.Parameter] = {}
    for name, weight in model.named_parameters():
        weight.requires_grad_(name.startswith(tuple(ours)))
        if weight.requires_grad:
            chosen[name] = weight
    return chosen


def _pace(step: int, recipe: Recipe) -> float:
    """The factor of the learning rate: it rises linearly, and falls along a cosine to a twentieth."""
    down = 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / recipe.steps))
    return min(1.0, (step + 1) / recipe.warmup) * down


def _step(
    model: LlamaForCausalLM, rows: Sequence[Row], trained: list[torch.nn.Parameter], optimizer: torch.optim.AdamW
) -> tuple[float, float]:
    """(mean loss in nats, share of tokens whose likeliest was right): of each row's answer tokens, then over rows. So
    a verdict of three lines weighs as much as proposals of thirty."""
    loss = hits = 0.0
    optimizer.zero_grad(set_to_none=True)
    for one in rows:  # one at a time, so that nothing is padded
        hidden = cast("Any", model.model)(**side_by_side([one]), use_cache=False).last_hidden_state
        each, right = answer_losses(model, hidden, [one])
        (each.mean() / len(rows)).backward()  # pyright: ignore[reportUnknownMemberType]
        loss += each.mean().item() / len(rows)
        hits += right.float().mean().item() / len(rows)
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()  # pyright: ignore[reportUnknownMemberType]
    return loss, hits


def _save(
    file: Path, recipe: Recipe, trained: dict[str, torch.nn.Parameter], optimizer: torch.optim.AdamW, spent: Spent
) -> None:
    weights = {name: weight.detach() for name, weight in trained.items()}
    kept = {"recipe": asdict(recipe), "weights": weights, "optimizer": optimizer.state_dict(), "spent": asdict(spent)}
    temporary = file.with_suffix(".tmp")
    _torch.save(kept, temporary)
    temporary.replace(file)


def _resume(file: Path, recipe: Recipe, trained: dict[str, torch.nn.Parameter], optimizer: torch.optim.AdamW) -> Spent:
    if not file.is_file():
        return Spent()
    kept = cast("dict[str, Any]", _torch.load(file, weights_only=True))
    if kept["recipe"] != asdict(recipe):
        return Spent()
    with torch.no_grad():
        for name, weight in kept["weights"].items():
            trained[name].copy_(weight)
    optimizer.load_state_dict(kept["optimizer"])
    return Spent(**kept["spent"])
