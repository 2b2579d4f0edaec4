"""The order in which a run binds spare entries for names: those that the model proposes most evenly come first.

After training, some entries are a little likelier than others, and some pairs disturb each other. A run binds its
mechanisms to the first entries, so the weights of entries are exchanged until a good set stands first. The set is
chosen on random catalogues of spare words.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from pace_async.advise.binding import spare_name
from pace_async.advise.catalogue_prompts import Offer, propose_text
from pace_async.advise.catalogue_wording import MECHANISMS
from research.advisor.catalogue_reader import corpus
from research.advisor.catalogue_reader.tokenizer import NAMES, as_entry

CANDIDATES, SETS, FINALISTS = 40, 120, 6
"""Entries among which sets are drawn, sets tried, and sets tried again on more catalogues."""
SIZES = (4, 8, 12, 12, 14)


class Order:
    """Finds and applies the order. Draws from `seed`."""

    def __init__(self, model: LlamaForCausalLM, tokenizer: Tokenizer, seed: int) -> None:
        self._model = cast("Any", model).eval()
        self._tokenizer = tokenizer
        self._rng = random.Random(f"order {seed}")
        self._ids = [tokenizer.get_vocab()[as_entry(f" {spare_name(i)}")] for i in range(NAMES)]

    def find(self) -> list[int]:
        """All entries, by number, in the order in which they should be bound."""
        ratios: list[list[float]] = [[] for _ in range(NAMES)]
        for _ in range(2 * NAMES):
            names = self._rng.sample(range(NAMES), 12)
            for name, chance in zip(names, self._chances(names), strict=True):
                ratios[name].append(math.log(12 * chance))
        means = [sum(found) / max(1, len(found)) for found in ratios]
        middle = sorted(means)[NAMES // 2]
        ranked = sorted(range(NAMES), key=lambda name: abs(means[name] - middle))
        sets = [self._rng.sample(ranked[:CANDIDATES], MECHANISMS) for _ in range(SETS)]
        finalists = sorted(sets, key=lambda names: -self._evenness(names, 1))[:FINALISTS]
        best = max(finalists, key=lambda names: self._evenness(names, 4))
        return [*best, *(name for name in ranked if name not in best)]

    @torch.no_grad()
    def apply(self, order: Sequence[int]) -> None:
        """Give entry i the weights of entry `order[i]`."""
        here, there = self._ids, [self._ids[name] for name in order]
        for weights in (self._model.model.embed_tokens.weight, self._model.lm_head.weight):
            weights[here] = weights[there].clone()

    def _evenness(self, names: Sequence[int], times: int) -> float:
        """Mean relative entropy over catalogues that bind the first entries of `names`."""
        found: list[float] = []
        for size in SIZES * times:
            chances = self._chances(names[:size])
            found.append(-sum(p * math.log(p) for p in chances if p > 0) / math.log(size))
        return sum(found) / len(found)

    @torch.inference_mode()
    def _chances(self, names: Sequence[int]) -> list[float]:
        """Of each name of a random catalogue to be proposed first, among the names."""
        drawn: list[Offer] = []
        while len(drawn) < len(names):
            drawn += corpus.without_sites(self._rng, MECHANISMS).listed
        offers = [replace(offer, name=spare_name(name)) for name, offer in zip(names, drawn, strict=False)]
        prompt = propose_text(offers, corpus.random_tried(corpus.Drawn(offers), self._rng))
        ids = self._tokenizer.encode(f"{prompt}Idea 1\nHypothesis:").ids
        logits = self._model(input_ids=torch.tensor([ids])).logits[0, -1].float()
        return logits[[self._ids[name] for name in names]].softmax(-1).tolist()
