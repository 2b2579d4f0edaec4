"""The reader's shape, and first weights that already lean towards copying.

Copying takes two layers that each are useless without the other: one gathers what stands before a token, one looks for
what was gathered. A small model finds them late. So both are hinted at: layer 0 looks one to four tokens back, and
layer 1 compares what layer 0 gathered here with what it gathered elsewhere (COMPARED). All weights are trained.
"""

import math
from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

WIDTH, LAYERS, HEADS, INNER = 128, 3, 4, 344
LOOK_BACK = (1, 2, 3, 4)
"""How many tokens back each head of layer 0 looks at first."""
COMPARED = (((1,), (2,)), ((0, 1, 2, 3), (1, 2, 3, 4)), ((0,), (1,)), ((0, 1), (1, 2)))
"""(tokens back from here, tokens back from a word elsewhere) that the heads of layer 1 compare first: the option that
stands behind the same name, and what followed the same last tokens."""
SHARP, TURNING = 4.0, 8
"""How much sharper layer 1 compares than a random layer, and how many of a head's rotary pairs take no part at first:
those that turn far within a prompt, so that they blur what is equal."""
COMMON = 0.35
"""Share of an embedding's squared length that all tokens have in common. Position heads hold on to it."""


def first_model(tokenizer: Tokenizer, seed: int) -> LlamaForCausalLM:
    """A Llama of about a million weights, not trained yet."""
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.token_to_id("<s>"),
        eos_token_id=tokenizer.token_to_id("</s>"),
        pad_token_id=tokenizer.token_to_id("<pad>"),
    )
    model = LlamaForCausalLM(config)
    settings = cast("Any", model.generation_config)
    settings.do_sample, settings.temperature, settings.top_k, settings.top_p = True, 1.0, 0, 1.0
    _lean_towards_copying(cast("Any", model))
    return model


@torch.no_grad()
def trained_model(folder: Path, tokenizer: Tokenizer) -> LlamaForCausalLM:
    """The weights of a folder, to go on with. Entries that its tokenizer had and this one has not are left out."""
    given = cast("Any", LlamaForCausalLM).from_pretrained(folder)
    known = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()
    vocabulary = tokenizer.get_vocab()
    rows = [known[entry] for entry in sorted(vocabulary, key=lambda entry: vocabulary[entry])]
    model = first_model(tokenizer, 0)
    weights = given.state_dict()
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        weights[name] = weights[name][rows]
    cast("Any", model).load_state_dict(weights)
    return model


@torch.no_grad()
def _lean_towards_copying(model: Any) -> None:
    size = WIDTH // HEADS
    common = torch.nn.functional.normalize(torch.randn(WIDTH), dim=0)
    own = torch.randn(model.config.vocab_size, WIDTH)
    own -= (own @ common)[:, None] * common
    model.model.embed_tokens.weight.copy_(0.5 * (own * math.sqrt(1 - COMMON) + common * math.sqrt(WIDTH * COMMON)))
    model.lm_head.weight.copy_(0.05 * own)
    gathered = cast("Tensor", cast("Any", torch.linalg).qr(torch.randn(WIDTH, WIDTH))[0])
    back = {0: _random(size)}
    for head, distance in enumerate(LOOK_BACK):
        back[distance] = gathered[:, head * size : (head + 1) * size].t()
    for number, layer in enumerate(model.model.layers):
        attention = layer.self_attn
        for head in range(HEADS):
            rows = slice(head * size, (head + 1) * size)
            if number == 0:
                _look_back(attention, head * size, size, LOOK_BACK[head], common)
                attention.v_proj.weight[rows] = back[0]
                attention.o_proj.weight[:, rows] = gathered[:, rows]
            elif number == 1:
                here, there = COMPARED[head]
                attention.q_proj.weight[rows] = SHARP * sum(back[distance] for distance in here)
                for pair in range(TURNING):
                    attention.q_proj.weight[[head * size + pair, head * size + size // 2 + pair]] = 0.0
                attention.k_proj.weight[rows] = sum(back[distance] for distance in there)
            else:
                attention.q_proj.weight[rows] = _random(size)
                attention.k_proj.weight[rows] = attention.q_proj.weight[rows]
        if number > 0:
            attention.v_proj.weight.copy_(_random(WIDTH))
            attention.o_proj.weight.copy_(0.3 * attention.v_proj.weight.T)


def _look_back(attention: Any, row: int, size: int, distance: int, common: Tensor) -> None:
    """Add to one head a query and a key along `common` whose rotary phases agree at `distance` tokens back."""
    half = size // 2
    for pair in range(half // 2):
        angle = distance * 10000.0 ** (-pair / half)
        attention.q_proj.weight[row + pair] += common
        attention.k_proj.weight[row + pair] += math.cos(angle) * common
        attention.k_proj.weight[row + pair + half] += math.sin(angle) * common


def _random(rows: int) -> Tensor:
    return torch.randn(rows, WIDTH) / math.sqrt(WIDTH)
