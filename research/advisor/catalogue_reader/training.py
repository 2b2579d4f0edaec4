"""Training of the reader, in parts that can be resumed.

A row is a prompt and its answers side by side: each answer sees the prompt and itself. The loss of a choice is the
divergence from an even distribution over all good words. The learning rate is flat, then falls linearly over the last
60 % of the steps. A checkpoint holds the model, the optimizer and the number of steps done. Each step's examples are
derived from the seed and the step, so a resumed training sees the same rows as one that was never stopped.
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from pace_async.advise.binding import spare_name
from research.advisor.catalogue_reader import corpus
from research.advisor.catalogue_reader.tokenizer import END, as_entry

PARTS = 3
"""Parts of a batch, each of rows of like length."""
WORDING = 0.15
"""Weight of the loss of a token that nothing chooses."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """`growing` is the share of the steps over which catalogues grow to their full size. `example` draws an
    example."""

    steps: int = 3000
    seed: int = 0
    batch: int = 16
    learning_rate: float = 2e-3
    warmup: int = 40
    falling: float = 0.6
    growing: float = 0.35
    weight_decay: float = 0.05
    told_every: int = 50
    example: Callable[[random.Random, float], corpus.Example] = corpus.example


@dataclass(frozen=True, slots=True)
class Row:
    """Token ids with segment (0 is the prompt) and position of each, and the losses: (place, good tokens there,
    weight)."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    positions: tuple[int, ...]
    losses: tuple[tuple[int, tuple[int, ...], float], ...]


class Rows:
    """Makes rows of examples."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._entries = tokenizer.get_vocab()
        self._end = self._entries[END]
        self._first_word = self._entries[as_entry(f" {spare_name(0)}")]

    def row(self, example: corpus.Example) -> Row:
        prompt = self._tokenizer.encode(example.prompt).ids
        ids, segments, positions = [*prompt], [0] * len(prompt), list(range(len(prompt)))
        losses: list[tuple[int, tuple[int, ...], float]] = []
        for number, answer in enumerate(example.answers, start=1):
            tokens = [*self._tokenizer.encode(answer.text, add_special_tokens=False).ids, self._end]
            place, words = len(prompt) - 1, 0
            for offset, token in enumerate(tokens):
                good, weight = (token,), WORDING
                if offset == 0 and -1 in answer.choices:
                    good, weight = self._ids(answer.choices[-1]), 1.0
                elif token >= self._first_word:
                    weight = 1.0
                    if words in answer.choices:
                        good = self._ids([f" {word}" for word in answer.choices[words]])
                    words += 1
                losses.append((place, good, weight))
                place = len(ids)
                if offset < len(tokens) - 1:
                    ids.append(token)
                    segments.append(number)
                    positions.append(len(prompt) + offset)
        return Row(tuple(ids), tuple(segments), tuple(positions), tuple(losses))

    def _ids(self, pieces: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._entries[as_entry(piece)] for piece in pieces)

    def batch(self, recipe: Recipe, step: int) -> list[Row]:
        """The rows of one step."""
        rng = random.Random(f"reader {recipe.seed} {step}")
        grown = min(1.0, step / (recipe.growing * recipe.steps)) if recipe.growing else 1.0
        return [self.row(recipe.example(rng, grown)) for _ in range(recipe.batch)]


def hidden_states(model: LlamaForCausalLM, batch: Sequence[Row]) -> Tensor:
    """Of each row's tokens (rows, length, width). Answers stand side by side and see the prompt and themselves."""
    length = max(len(row.ids) for row in batch)
    ids = torch.zeros(len(batch), length, dtype=torch.long)
    segments = torch.full((len(batch), length), -1)
    positions = torch.zeros(len(batch), length, dtype=torch.long)
    for i, row in enumerate(batch):
        ids[i, : len(row.ids)] = torch.tensor(row.ids)
        segments[i, : len(row.ids)] = torch.tensor(row.segments)
        positions[i, : len(row.ids)] = torch.tensor(row.positions)
    same = segments[:, :, None] == segments[:, None, :]
    seen = (same | (segments[:, None, :] == 0)) & torch.ones(length, length, dtype=torch.bool).tril()
    return (
        cast("Any", model.model)(input_ids=ids, attention_mask=seen[:, None], position_ids=positions, use_cache=False)
    ).last_hidden_state


def losses(model: LlamaForCausalLM, batch: Sequence[Row]) -> tuple[Tensor, Tensor, Tensor]:
    """For each answer token (tokens,): divergence in nats from an even choice among the good ones, its weight, and the
    probability of all that is not good."""
    out = hidden_states(model, batch)
    length = out.shape[1]
    asked = [(i * length + place, good, weight) for i, row in enumerate(batch) for place, good, weight in row.losses]
    logs = model.lm_head(out.reshape(-1, out.shape[-1])[[place for place, _, _ in asked]]).float().log_softmax(-1)
    counts = torch.tensor([len(good) for _, good, _ in asked])
    target = torch.zeros_like(logs)
    target[torch.arange(len(asked)).repeat_interleave(counts), [t for _, good, _ in asked for t in good]] = 1.0
    divergence = -(target * logs).sum(-1) / counts - counts.log()
    wrong = 1 - (target * logs.exp()).sum(-1).detach()
    return divergence, torch.tensor([weight for _, _, weight in asked]), wrong


def _backward(model: LlamaForCausalLM, batch: Sequence[Row]) -> tuple[float, float, float]:
    """Adds up the gradient of the batch's loss. Rows of like length are padded together, PARTS times. Returns the loss
    and the mean probability of all that is not good, at any token and at words."""
    ordered = sorted(batch, key=lambda row: len(row.ids))
    size = math.ceil(len(ordered) / PARTS)
    total = sum(weight for row in batch for _, _, weight in row.losses)
    loss, found = 0.0, list[tuple[Tensor, Tensor]]()
    for begin in range(0, len(ordered), size):
        divergence, weight, wrong = losses(model, ordered[begin : begin + size])
        part = (divergence * weight).sum() / total
        part.backward()  # pyright: ignore[reportUnknownMemberType]
        loss += part.item()
        found.append((wrong, weight))
    wrong, weight = (torch.cat(parts) for parts in zip(*found, strict=True))
    return loss, wrong.mean().item(), wrong[weight == 1.0].mean().item()


def train(
    model: LlamaForCausalLM,
    tokenizer: Tokenizer,
    recipe: Recipe,
    leg: Path,
    report: Callable[[str], None],
    pause: int,
    until: int | None = None,
) -> bool:
    """Trains in place, from the checkpoint `leg` if it exists, and ends after step `until`, if that comes first. Writes
    `leg` every `pause` steps and at the end. Returns whether all steps are done."""
    trained = [p for p in model.parameters() if p.requires_grad]
    decayed = [p for p in trained if p.ndim == 2]
    plain = [p for p in trained if p.ndim != 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": plain, "weight_decay": 0.0}],
        lr=recipe.learning_rate,
        betas=(0.9, 0.98),
        fused=True,
    )
    begin = 0
    if leg.exists():
        state = torch.load(leg, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = int(state["step"])
    rows, began, tokens = Rows(tokenizer), time.process_time(), 0
    average, bad, bad_word = 0.0, 0.0, 0.0
    model.train()
    end = min(recipe.steps, until or recipe.steps)
    for step in range(begin, end):
        batch = rows.batch(recipe, step)
        left = min(1.0, (1 - step / recipe.steps) / recipe.falling)
        rate = recipe.learning_rate * min(1.0, (step + 1) / recipe.warmup) * (0.02 + 0.98 * left)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        loss, any_wrong, word_wrong = _backward(model, batch)
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()  # pyright: ignore[reportUnknownMemberType]
        tokens += sum(len(row.ids) for row in batch)
        new = max(0.03, 1 / (step - begin + 1))
        average += new * (loss - average)
        bad += new * (any_wrong - bad)
        bad_word += new * (word_wrong - bad_word)
        if (step + 1) % recipe.told_every == 0:
            spent = time.process_time() - began
            report(
                f"step {step + 1}  {spent / 60:.1f} core-minutes  {tokens / spent:.0f} tokens/s  rate {rate:.1e}  "
                f"loss {average:.4f}  wrong: word {bad_word:.4f}, any {bad:.4f}"
            )
        if (step + 1) % pause == 0 or step + 1 == end:
            saved: dict[str, Any] = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(saved, leg.with_suffix(".new"))
            leg.with_suffix(".new").replace(leg)
    model.eval()
    return end == recipe.steps
