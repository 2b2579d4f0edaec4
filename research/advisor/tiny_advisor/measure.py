"""Measures a saved advisor: whole chains sampled at temperature 1 through the run's own prompts and parser.

A chain is propose, assess, admit, select on a held-out random state of the real tasks. The figures are shares of
chains (or of proposals, if named so). Entropy is the policy's own, in nats, summed over one answer's sampled tokens
and divided by kind of token. Not a test of scores: nothing is evaluated.
"""

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from pace_async.answers import parse_assess, parse_propose, parse_select
from pace_async.errors import CandidateFault
from pace_async.search.ideas import admit, recognised
from research.advisor.tiny_advisor.corpus import IDEAS_KEPT, Pair, State, changes, known_places, random_state
from research.advisor.tiny_advisor.worlds import World

_IDEA = re.compile(r"(?P<name>\w+) to (?P<option>\S+) from (?P<current>\S+) helps\.")
_EXPERIMENT = re.compile(r"(?P<name>\w+) to (?P<option>\S+) from (?P<current>\S+)\.")


@dataclass(slots=True)
class Figures:
    """Counts behind the printed shares."""

    chains: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    mechanisms: Counter[str] = field(default_factory=Counter[str])
    pairs: Counter[Pair] = field(default_factory=Counter[Pair])
    chosen: Counter[str] = field(default_factory=Counter[str])
    entropy: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict[str, list[float]](list))
    tokens: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict[str, list[int]](list))


@dataclass(frozen=True, slots=True)
class Sampled:
    """One answer: its text, ids without the end token, and the policy's entropy at each sampled token."""

    text: str
    ids: tuple[int, ...]
    entropies: tuple[float, ...]


class Sampler:
    """Samples answers of a Llama to prompts of any length in one batch, with a key-value cache, at temperature 1."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.model = cast("Any", LlamaForCausalLM).from_pretrained(folder).eval()
        self.end: int = self.model.config.eos_token_id
        self.generator = torch.Generator().manual_seed(seed)

    @torch.inference_mode()
    def sample(self, prompts: Sequence[str], max_tokens: int = 160) -> list[Sampled]:
        """One answer for each prompt."""
        encoded = [self.tokenizer.encode(prompt).ids for prompt in prompts]
        length = max(len(ids) for ids in encoded)
        ids = torch.tensor([[2] * (length - len(prompt)) + prompt for prompt in encoded])
        mask = torch.tensor([[0] * (length - len(prompt)) + [1] * len(prompt) for prompt in encoded])
        cache: Any = None
        answers: list[list[int]] = [[] for _ in prompts]
        entropies: list[list[float]] = [[] for _ in prompts]
        open_rows = set(range(len(prompts)))
        while open_rows and len(max(answers, key=len)) < max_tokens:
            positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
            out = self.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache = out.past_key_values
            logs = out.logits[:, -1].float().log_softmax(-1)
            drawn = torch.multinomial(logs.exp(), 1, generator=self.generator)
            entropy = -(logs.exp() * logs).sum(-1)
            for i in list(open_rows):
                entropies[i].append(entropy[i].item())
                if int(drawn[i]) == self.end:
                    open_rows.discard(i)
                else:
                    answers[i].append(int(drawn[i]))
            ids = drawn
            mask = torch.cat([mask, torch.ones_like(drawn)], dim=1)
        return [
            Sampled(self.tokenizer.decode(answer), tuple(answer), tuple(e))
            for answer, e in zip(answers, entropies, strict=True)
        ]


def measure(folder: Path, worlds: Sequence[World], chains: int, seed: int, batch: int = 64) -> Figures:
    """Figures over `chains` chains."""
    rng = random.Random(f"measure {seed}")
    sampler = Sampler(folder, seed)
    figures = Figures()
    while figures.chains < chains:
        states = [random_state(rng.choice(list(worlds)), rng) for _ in range(min(batch, chains - figures.chains))]
        _chain(sampler, states, figures)
        figures.chains += len(states)
    return figures


def summary(figures: Figures, worlds: Sequence[World]) -> dict[str, float]:
    """The figures as shares."""
    count, chains = figures.counts, figures.chains
    proposals = max(1, count["proposals"])
    selected = max(1, count["selected"])
    total = max(1, figures.mechanisms.total())
    names = {name for world in worlds for name in world.options}
    spread = -sum(n / total * math.log(n / total) for n in figures.mechanisms.values()) / math.log(len(names))
    known = count["known said right"] + count["known missed"]
    return {
        "chains": chains,
        "proposals that parse": count["propose parsed"] / chains,
        "whole chains that parse": count["selected"] / chains,
        "ideas that name a mechanism and an option": count["named"] / proposals,
        "ideas that would change the parent": count["idea changes"] / max(1, count["named"]),
        "ideas that name the parent's setting": count["idea current right"] / proposals,
        "proposals with three distinct ideas": count["distinct"] / max(1, count["propose parsed"]),
        "mechanisms that occur": sum(figures.mechanisms[name] > 0 for name in names) / len(names),
        "share of the commonest mechanism": max(figures.mechanisms.values(), default=0) / total,
        "mechanism entropy / uniform": spread,
        "share of pairs of the catalogue that occur": len(figures.pairs)
        / sum(len(options) for world in worlds for options in world.options.values()),
        "verdicts that are right": count["verdict right"] / max(1, count["verdicts"]),
        "known ideas called so": count["known said right"] / max(1, known),
        "experiments that carry out the idea": count["carried out"] / selected,
        "experiments that name the parent's setting": count["current right"] / selected,
        "experiments right in both": count["both"] / selected,
        "edits that change nothing": count["no change"] / selected,
    }


def entropies(figures: Figures) -> dict[str, tuple[float, float]]:
    """Kind of token to (mean entropy a token in nats, share of all entropy)."""
    total = sum(sum(values) for values in figures.entropy.values()) or 1.0
    kinds = sorted(figures.entropy, key=lambda kind: -sum(figures.entropy[kind]))
    return {kind: (sum(v) / len(v), sum(v) / total) for kind in kinds for v in [figures.entropy[kind]]}


def _chain(sampler: Sampler, states: Sequence[State], figures: Figures) -> None:
    answers = sampler.sample([s.world.propose_prompt(s.context) for s in states])
    proposed: list[tuple[State, list[str]]] = []
    for state, answer in zip(states, answers, strict=True):
        _entropy(sampler, "propose", answer, figures)
        try:
            ideas = parse_propose(answer.text)
        except CandidateFault:
            continue
        _look_at_ideas(state, ideas, figures)
        proposed.append((state, [text for text, _ in ideas]))
    if not proposed:
        return
    answers = sampler.sample([s.world.assess_prompt(s.context, texts) for s, texts in proposed])
    pools: list[State] = []
    for (state, texts), answer in zip(proposed, answers, strict=True):
        _entropy(sampler, "assess", answer, figures)
        try:
            verdicts = parse_assess(answer.text, len(texts), len(state.context.ideas))
        except CandidateFault:
            continue
        pairs = [_pair(text) for text in texts]
        for said, true in zip(verdicts, known_places(state, [pair or ("", "") for pair in pairs]), strict=True):
            figures.counts["verdicts"] += 1
            figures.counts["verdict right"] += said == true
            figures.counts["known said right" if said == true else "known missed"] += true is not None
        numbers = [None if k is None else state.context.ideas[k - 1].number for k in verdicts]
        following = len(state.context.ideas) + 1
        numbers = recognised(state.context.ideas, texts, numbers, following)
        pool, _, _ = admit(state.context.ideas, texts, numbers, following, IDEAS_KEPT)
        pools.append(replace(state, context=replace(state.context, ideas=pool)))
    if not pools:
        return
    answers = sampler.sample([s.world.select_prompt(s.context) for s in pools])
    for state, answer in zip(pools, answers, strict=True):
        _entropy(sampler, "select", answer, figures)
        look_at_experiment(state, answer.text, figures)


def _look_at_ideas(state: State, ideas: Sequence[tuple[str, str]], figures: Figures) -> None:
    figures.counts["propose parsed"] += 1
    pairs = [_pair(text) for text, _ in ideas]
    figures.counts["distinct"] += len(set(pairs)) == len(pairs)
    for pair, (text, _) in zip(pairs, ideas, strict=True):
        figures.counts["proposals"] += 1
        if pair is None or pair[1] not in state.world.options.get(pair[0], ()):
            continue
        figures.counts["named"] += 1
        figures.mechanisms[pair[0]] += 1
        figures.pairs[pair] += 1
        figures.counts["idea changes"] += changes(pair, state.settings)
        match = _IDEA.fullmatch(text)
        figures.counts["idea current right"] += match is not None and match["current"] == state.settings[pair[0]]


def look_at_experiment(state: State, text: str, figures: Figures) -> None:
    try:
        place, description = parse_select(text, len(state.context.ideas))
    except CandidateFault:
        return
    figures.counts["selected"] += 1
    match = _EXPERIMENT.fullmatch(description)
    if match is None or match["name"] not in state.settings:
        return
    carried = _pair(state.context.ideas[place - 1].description) == (match["name"], match["option"])
    current = match["current"] == state.settings[match["name"]]
    figures.chosen[match["name"]] += 1
    figures.counts["carried out"] += carried
    figures.counts["current right"] += current
    figures.counts["both"] += carried and current
    figures.counts["no change"] += match["option"] == state.settings[match["name"]]


def _pair(hypothesis: str) -> Pair | None:
    match = _IDEA.fullmatch(hypothesis)
    return (match["name"], match["option"]) if match else None


_KINDS = {
    ("propose", "\nHypothesis:"): "idea: mechanism",
    ("propose", " from"): "idea: parent's setting",
    ("propose", " to"): "idea: option",
    ("assess", ":"): "assess: verdict",
    ("assess", " known"): "assess: number",
    ("select", " ID:"): "select: idea number",
    ("select", " description:"): "select: mechanism",
    ("select", " from"): "select: parent's setting",
    ("select", " to"): "select: option",
}


def _entropy(sampler: Sampler, purpose: str, answer: Sampled, figures: Figures) -> None:
    figures.tokens[purpose].append(len(answer.entropies))
    before = ["", *(sampler.tokenizer.decode([token]) for token in answer.ids)]
    for previous, entropy in zip(before, answer.entropies, strict=False):
        kind = _KINDS.get((purpose, previous), f"{purpose}: wording")
        figures.entropy[kind].append(entropy)
