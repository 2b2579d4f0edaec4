"""SmolLM2 as an advisor that reads a task's catalogue in its prompt: its layers, with the vocabulary of the reader.

Wordings are whole entries there and each catalogue word is one entry, so an answer of one idea has six tokens, and a
run binds its catalogue as it does for the advisor in the package. An entry starts as the mean of what SmolLM2 knows of
its text. A spare entry starts as a word that SmolLM2 knows, a different one for each, because the model can copy words
that it can tell apart.
"""

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import Tokenizer, decoders
from transformers import LlamaForCausalLM

from pace_async.advise.binding import spare_name, spare_value
from pace_async.advise.catalogue_wording import MECHANISMS
from research.advisor.catalogue_reader import corpus
from research.advisor.catalogue_reader.tokenizer import BEGIN, END, NAMES, PAD, VALUES, as_entry

_WORD = re.compile(r"\u0120[a-z]{4,7}")
"""An entry of SmolLM2's vocabulary that is a short word with a space before it."""
_SECOND = "\nIdea 2"


def only_idea(rng: random.Random, grown: float) -> corpus.Example:
    """A question with answers of one idea each. `grown` in [0, 1] sets the largest catalogue."""
    drawn = corpus.random_catalogue(rng, 4 + round((MECHANISMS - 4) * grown))
    whole = corpus.propose_example(drawn, rng)
    return corpus.Example(whole.prompt, tuple(_first(answer) for answer in whole.answers))


def _first(answer: corpus.Answer) -> corpus.Answer:
    text = answer.text[: answer.text.index(_SECOND)]
    words = len(text.split("Hypothesis: ")[1].split(" to ")[0].split()) + 1
    return replace(answer, text=text, choices={place: good for place, good in answer.choices.items() if place < words})


@torch.no_grad()
def with_vocabulary(published: Path, tokenizer: Tokenizer, seed: int) -> LlamaForCausalLM:
    """SmolLM2 with the entries of `tokenizer`, and a head of its own. Its layers are the published ones."""
    loader: Any = LlamaForCausalLM
    model = loader.from_pretrained(published, local_files_only=True, dtype=torch.float32)
    known = Tokenizer.from_file(str(published / "tokenizer.json"))
    rows = _rows(model.model.embed_tokens.weight, known, tokenizer, seed)
    model.config.vocab_size = len(rows)
    model.config.tie_word_embeddings = False
    model.config.max_position_embeddings = 2048
    for name, token in (("bos", BEGIN), ("eos", END), ("pad", PAD)):
        for settings in (model.config, model.generation_config):
            setattr(settings, f"{name}_token_id", tokenizer.token_to_id(token))
    made = LlamaForCausalLM(model.config)
    weights = {**model.state_dict(), "model.embed_tokens.weight": rows, "lm_head.weight": rows.clone()}
    cast("Any", made).load_state_dict(weights)
    settings = cast("Any", made.generation_config)
    settings.do_sample, settings.temperature, settings.top_k, settings.top_p = True, 1.0, 0, 1.0
    return made


def freeze_below(model: LlamaForCausalLM, upper: int) -> None:
    """Only the `upper` upper layers, the last norm and the head are trained."""
    first = cast("Any", model.config).num_hidden_layers - upper
    ours = ("model.norm.", "lm_head.", *(f"model.layers.{first + number}." for number in range(upper)))
    for name, weight in model.named_parameters():
        weight.requires_grad_(name.startswith(ours))


def _rows(embedding: torch.Tensor, known: Tokenizer, tokenizer: Tokenizer, seed: int) -> torch.Tensor:
    """The embedding of each entry of `tokenizer`, (entries, width)."""
    vocabulary = known.get_vocab()
    words = sorted(entry for entry in vocabulary if _WORD.fullmatch(entry))
    spare = [*map(spare_name, range(NAMES)), *map(spare_value, range(VALUES))]
    drawn = random.Random(seed).sample(words, len(spare))
    given = {as_entry(f" {word}"): [vocabulary[entry]] for word, entry in zip(spare, drawn, strict=True)}
    ends = {BEGIN: "<|im_start|>", END: "<|im_end|>", PAD: "<|endoftext|>"}
    given |= {entry: [vocabulary[name]] for entry, name in ends.items()}
    rows = torch.empty(tokenizer.get_vocab_size(), embedding.shape[1])
    for entry, place in tokenizer.get_vocab().items():
        ids = given.get(entry) or known.encode(_text(entry), add_special_tokens=False).ids or [vocabulary[ends[PAD]]]
        rows[place] = embedding[ids].mean(0)
    return rows


def _text(entry: str) -> str:
    return cast("Any", decoders.ByteLevel()).decode([entry])
