"""A language model's layers with the reader's vocabulary, shown on a small Llama that is made here."""

import json
import random
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from pace_async.advise.binding import spare_name, spare_value
from pace_async.advise.catalogue_wording import FIRST_IDEA
from pace_async.answers import parse_first
from research.advisor.catalogue_reader import tokenizer, training
from research.advisor.catalogue_reader.tokenizer import NAMES, VALUES, as_entry
from research.advisor.smollm2.reading import freeze_below, only_idea, with_vocabulary

READER = tokenizer.build()
WORDS = ["\u0120" + "".join(letters) + "en" for letters in product("bdklmnprst", "aeiou", "mnrst")]
"""More short words than there are spare entries."""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Llama with tied embeddings and a byte-level vocabulary with words."""
    folder = tmp_path_factory.mktemp("published")
    entries = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(pre_tokenizers.ByteLevel.alphabet()), *WORDS]
    known = Tokenizer(models.BPE(vocab={entry: n for n, entry in enumerate(entries)}, merges=[], ignore_merges=True))
    known.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    known.decoder = decoders.ByteLevel()
    known.save(str(folder / "tokenizer.json"))
    config = LlamaConfig(
        vocab_size=len(entries),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)  # pyright: ignore[reportUnknownMemberType]
    return folder


@pytest.fixture(scope="module")
def made(published: Path) -> LlamaForCausalLM:
    return with_vocabulary(published, READER, seed=0)


def test_an_answer_of_one_idea_has_the_tokens_after_which_a_run_cuts_it() -> None:
    rng = random.Random(1)
    for _ in range(30):
        example = only_idea(rng, 1.0)
        for answer in example.answers:
            idea = parse_first(answer.text)
            site = len(idea.split(" to ")[0].split()) - 1
            assert len(READER.encode(answer.text, add_special_tokens=False).ids) == FIRST_IDEA - 1 + site
            assert idea.removesuffix(" helps.") in example.prompt
            assert max(answer.choices) == site + 1


def test_layers_are_the_published_ones_and_words_can_be_told_apart(published: Path, made: LlamaForCausalLM) -> None:
    given = cast("Any", LlamaForCausalLM).from_pretrained(published).state_dict()
    ours = made.state_dict()
    layers = [name for name in given if name.startswith("model.layers.")]
    assert layers
    assert all(torch.equal(given[name], ours[name]) for name in layers)
    vocabulary = READER.get_vocab()
    words = [*map(spare_name, range(NAMES)), *map(spare_value, range(VALUES))]
    rows = ours["model.embed_tokens.weight"][[vocabulary[as_entry(f" {word}")] for word in words]]
    assert len(rows.unique(dim=0)) == NAMES + VALUES
    known: dict[str, int] = json.loads((published / "tokenizer.json").read_text())["model"]["vocab"]
    offered = given["model.embed_tokens.weight"][[known[word] for word in WORDS]]
    assert bool((rows[:, None] == offered[None]).all(-1).any(-1).all())


def test_it_has_a_head_of_its_own_and_the_reader_s_special_tokens(made: LlamaForCausalLM) -> None:
    config: Any = made.config
    assert config.tie_word_embeddings is False
    assert made.lm_head.weight is not cast("Any", made.model).embed_tokens.weight
    assert config.vocab_size == READER.get_vocab_size()
    assert (config.eos_token_id, config.pad_token_id) == (READER.token_to_id("</s>"), READER.token_to_id("<pad>"))


def test_only_upper_layers_and_the_head_are_trained(published: Path, tmp_path: Path) -> None:
    model = with_vocabulary(published, READER, seed=0)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    freeze_below(model, 1)
    recipe = training.Recipe(steps=2, batch=2, warmup=1, growing=0.0, example=only_idea)
    assert training.train(model, READER, recipe, tmp_path / "leg.pt", print, pause=2)
    changed = {name for name, weight in model.state_dict().items() if not torch.equal(weight, before[name])}
    assert {"lm_head.weight", "model.norm.weight", "model.layers.2.mlp.up_proj.weight"} <= changed
    assert all(name.startswith(("lm_head.", "model.norm.", "model.layers.2.")) for name in changed)
