"""Trains the tiny advisor from nothing: endless fresh examples, loss on answers only.

A row is one prompt followed by all its answers side by side: each answer sees the prompt and itself, and its positions
begin where the prompt ends, so one reading of the prompt pays for every answer. Rows are sorted by length inside a
chunk of batches. The first rows are bare and short (few settings, mostly made up, many short answers), because copying
is learned fastest there. Then prompts grow to their full size.

Comparing an idea with the parent, or a proposal with the pool, decides one word of an answer, which is too little
signal to learn quickly. So training also has a probe on the middle layer, which is discarded afterwards. The probe
predicts the result of the comparison at the word where it can be made.
"""

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from research.advisor.tiny_advisor import corpus
from research.advisor.tiny_advisor.architecture import WIDTH
from research.advisor.tiny_advisor.tokenizer import END
from research.advisor.tiny_advisor.worlds import World

PROBED = 2
"""The probe reads what this many layers have made."""
PROBE_WEIGHT = 0.5
_CLASSES = {told: k for k, told in enumerate((corpus.SAME, corpus.OTHER, *range(corpus.IDEAS_KEPT + 1)))}


@dataclass(frozen=True, slots=True)
class Recipe:
    """The schedule of training. `bare` is the number of steps of copying alone. `growing` is the number of following
    steps over which full prompts reach their size. `made_up` is the share of made-up worlds after that."""

    steps: int = 5000
    batch: int = 16
    learning_rate: float = 2e-3
    warmup: int = 50
    bare: int = 400
    growing: int = 300
    made_up: float = 0.2
    weight_decay: float = 0.05
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """Token ids, with segment (0 is the prompt, then one for each answer) and position of each. `losses` are (place of
    the hidden state, tokens that are equally right next). `marks` are (place, class of the comparison's result)."""

    ids: list[int]
    segments: list[int]
    positions: list[int]
    losses: list[tuple[int, tuple[int, ...]]]
    marks: list[tuple[int, int]]


def row(tokenizer: Tokenizer, example: corpus.Example, end_token: str = END) -> Row:
    """An example as tokens, each answer closed by `end_token`."""
    end: int = cast("Any", tokenizer).token_to_id(end_token)
    encoded_prompt = tokenizer.encode(example.prompt)
    prompt: list[int] = encoded_prompt.ids
    told = dict(example.marks)
    marks = [(i, _CLASSES[told[begin]]) for i, (begin, _) in enumerate(encoded_prompt.offsets) if i and begin in told]
    ids, segments, positions = list(prompt), [0] * len(prompt), list(range(len(prompt)))
    losses: list[tuple[int, tuple[int, ...]]] = []
    for segment, answer in enumerate(example.answers, start=1):
        encoded = tokenizer.encode(answer.text, add_special_tokens=False)
        targets = [*encoded.ids, end]
        spans = [*encoded.offsets, (len(answer.text), len(answer.text))]
        first = len(ids)
        for place, (target, (begin, _)) in enumerate(zip(targets, spans, strict=True)):
            if not any(low <= begin < high for low, high in answer.unknowable):
                right = _single_tokens(tokenizer, answer.choices.get(begin, ())) or (target,)
                losses.append((first + place - 1 if place else len(prompt) - 1, right))
        ids += targets[:-1]
        segments += [segment] * (len(targets) - 1)
        positions += range(len(prompt), len(prompt) + len(targets) - 1)
    return Row(ids, segments, positions, losses, marks)


def _single_tokens(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[int, ...]:
    """Ids of the words, or nothing unless each is an entry of the vocabulary."""
    look_up = cast("Callable[[str], int | None]", tokenizer.token_to_id)
    ids = [look_up(word.replace(" ", "Ġ")) for word in words]
    known = tuple(token for token in ids if token is not None)
    return known if len(known) == len(words) else ()


def rows(tokenizer: Tokenizer, worlds: Sequence[World], recipe: Recipe, chunk: int = 8) -> Iterator[list[Row]]:
    """Batches without end."""
    rng = random.Random(recipe.seed)
    step = 0
    while True:
        examples = [_example(worlds, recipe, step, rng) for _ in range(chunk * recipe.batch)]
        sized = sorted((row(tokenizer, example) for example in examples), key=lambda r: len(r.ids))
        batches = [sized[i : i + recipe.batch] for i in range(0, len(sized), recipe.batch)]
        rng.shuffle(batches)
        yield from batches
        step += chunk


def _example(worlds: Sequence[World], recipe: Recipe, step: int, rng: random.Random) -> corpus.Example:
    if step < recipe.bare:
        size = rng.randint(4, 6 + 2 * step // recipe.bare)
        world = corpus.random_world(worlds, rng, 0.7, size, invented_too=step > recipe.bare / 2)
        return corpus.bare_example(corpus.random_state(world, rng, size), rng)
    grown = min(1.0, (step - recipe.bare) / max(1, recipe.growing))
    size = rng.randint(4, 6 + round(10 * grown))
    world = corpus.random_world(worlds, rng, recipe.made_up + (0.5 - recipe.made_up) * (1 - grown), size)
    return corpus.example(corpus.random_state(world, rng, size if grown < 1 else 99), rng)


def losses(model: LlamaForCausalLM, batch: Sequence[Row], probe: nn.Linear) -> tuple[Tensor, Tensor, Tensor]:
    """Those of `answer_losses`, (tokens,) each, and the probe's cross-entropy of each mark (marks,)."""
    out = cast("Any", model.model)(**side_by_side(batch), use_cache=False, output_hidden_states=True)
    length = out.last_hidden_state.shape[1]
    marked = [(i * length + place, told) for i, r in enumerate(batch) for place, told in r.marks]
    middle = out.hidden_states[PROBED].reshape(-1, WIDTH)[[place for place, _ in marked]]
    told = torch.tensor([told for _, told in marked], dtype=torch.long)
    probed = nn.functional.cross_entropy(probe(middle), told, reduction="none")
    return *answer_losses(model, out.last_hidden_state, batch), probed


def side_by_side(batch: Sequence[Row]) -> dict[str, Tensor]:
    """Inputs of a model's forward pass: each answer of a row attends to the row's prompt and itself."""
    length = max(len(r.ids) for r in batch)
    ids = torch.zeros(len(batch), length, dtype=torch.long)
    segments = torch.full((len(batch), length), -1)
    positions = torch.zeros(len(batch), length, dtype=torch.long)
    for i, r in enumerate(batch):
        ids[i, : len(r.ids)] = torch.tensor(r.ids)
        segments[i, : len(r.ids)] = torch.tensor(r.segments)
        positions[i, : len(r.ids)] = torch.tensor(r.positions)
    same = segments[:, :, None] == segments[:, None, :]
    seen = (same | (segments[:, None, :] == 0)) & torch.ones(length, length, dtype=torch.bool).tril()
    return {"input_ids": ids, "attention_mask": seen[:, None], "position_ids": positions}


def answer_losses(model: LlamaForCausalLM, hidden: Tensor, batch: Sequence[Row]) -> tuple[Tensor, Tensor]:
    """From the last hidden states, (rows, length, width): cross-entropy of each answer token in nats against a uniform
    choice among the right ones, and whether the most probable token was right, both (tokens,)."""
    length = hidden.shape[1]
    asked = [(i * length + place, right) for i, r in enumerate(batch) for place, right in r.losses]
    places = torch.tensor([place for place, _ in asked])
    logs = model.lm_head(hidden.reshape(-1, hidden.shape[-1])[places]).float().log_softmax(-1)
    counts = torch.tensor([len(right) for _, right in asked])
    target = torch.zeros_like(logs)
    target[torch.arange(len(asked)).repeat_interleave(counts), [token for _, right in asked for token in right]] = 1.0
    target /= counts[:, None]
    hits = target.gather(1, logs.argmax(-1, keepdim=True))[:, 0] > 0
    return -(target * logs).sum(-1), hits


def train(
    model: LlamaForCausalLM,
    tokenizer: Tokenizer,
    worlds: Sequence[World],
    recipe: Recipe,
    report: Callable[[str], None],
    minutes: float = math.inf,
) -> None:
    """Trains in place. Ends after `recipe.steps`. `minutes` only shortens a run that is too slow: the schedule then
    follows time instead of steps."""
    probe = nn.Linear(WIDTH, len(_CLASSES))
    decayed = [p for p in (*model.parameters(), *probe.parameters()) if p.ndim == 2]
    plain = [p for p in model.parameters() if p.ndim != 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": plain, "weight_decay": 0.0}],
        lr=recipe.learning_rate,
        betas=(0.9, 0.98),
    )
    model.train()
    begun = time.monotonic()
    average, right, compared = 0.0, 0.0, 0.0
    for step, batch in enumerate(rows(tokenizer, worlds, recipe)):
        spent = (time.monotonic() - begun) / 60
        done = max(step / recipe.steps, spent / minutes)
        if done >= 1:
            break
        rate = (
            recipe.learning_rate
            * min(1.0, (step + 1) / recipe.warmup)
            * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        )
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss, hit, probed = losses(model, batch, probe)
        mean = loss.mean()
        optimizer.zero_grad(set_to_none=True)
        (mean + PROBE_WEIGHT * probed.sum() / max(1, len(probed))).backward()  # pyright: ignore[reportUnknownMemberType]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()  # pyright: ignore[reportUnknownMemberType]
        weight = max(0.02, 1 / (step + 1))
        average += weight * (mean.item() - average)
        right += weight * (hit.float().mean().item() - right)
        compared += weight * (probed.mean().item() - compared) if len(probed) else 0.0
        if step % 100 == 99:
            progress = f"step {step + 1}  {spent:.1f} min  rate {rate:.1e}"
            report(f"{progress}  loss {average:.4f}  top-1 {right:.4f}  probe {compared:.4f}")
    model.eval()
