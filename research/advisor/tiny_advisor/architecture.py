"""The tiny advisor's shape, and first weights that already lean towards copying.

Copying from a context takes two layers, and each is useless without the other: one marks a token with the tokens before
it, and one looks for a mark. A small model spends most of its training before it finds them. So the first weights lean
towards both. Layer 0 attends one to four tokens back. Layer 1 compares what layer 0 gathered here with what it gathered
elsewhere (COMPARED). The layers above compare equal tokens. All weights are trained afterwards.
"""

import math
from typing import Any, cast

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

WIDTH, LAYERS, HEADS, INNER = 128, 4, 4, 344
LOOK_BACK = (1, 2, 3, 4)
"""How many tokens back each head of layer 0 looks at first."""
COMPARED = (((2,), (2,)), ((4,), (4,)), ((2, 0), (2, 0)), ((3,), (2,)), ((1,), (2,)))
"""(tokens back from the word before the one to write, tokens back from a word elsewhere) that layer 1's heads, and the
first of layer 2, compare first. Of `Idea 2: NAME to OPTION from ...`, `Idea ID: 2\nExperiment description: NAME to
OPTION from VALUE` and `NAME = VALUE`: the name and the option of the idea with the same place, whether a setting has
an option already, and the value of the setting last named after `from` and after `to`."""
COMMON = 0.35
"""Share of an embedding's squared length that all tokens have in common: what position heads can hold on to."""


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
def _lean_towards_copying(model: Any) -> None:
    size = WIDTH // HEADS
    common = torch.nn.functional.normalize(torch.randn(WIDTH), dim=0)
    own = torch.randn(model.config.vocab_size, WIDTH)
    own -= (own @ common)[:, None] * common
    model.model.embed_tokens.weight.copy_(0.5 * (own * math.sqrt(1 - COMMON) + common * math.sqrt(WIDTH * COMMON)))
    model.lm_head.weight.copy_(0.05 * own)
    gathered = cast("Tensor", cast("Any", torch.linalg).qr(torch.randn(WIDTH, WIDTH))[0])
    read = [_random(size) for _ in range(HEADS)]
    back = {0: _random(size)}
    for head, distance in enumerate(LOOK_BACK):
        back[distance] = gathered[:, head * size : (head + 1) * size].t()
    for number, layer in enumerate(model.model.layers):
        attention = layer.self_attn
        for head in range(HEADS):
            rows = slice(head * size, (head + 1) * size)
            if number == 0:
                _look_back(attention, head * size, size, LOOK_BACK[head], common)
                attention.v_proj.weight[rows] = read[head]
                attention.o_proj.weight[:, rows] = gathered[:, rows]
            elif (number - 1) * HEADS + head < len(COMPARED):
                here, there = COMPARED[(number - 1) * HEADS + head]
                attention.q_proj.weight[rows] = sum(back[distance] for distance in here)
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
