"""Small chat models of the two architectures that are served: random weights, byte tokenizers, and templates of the
structure that the published ones have."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from pace_async.weights import write_atomically

SWITCHED = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- if enable_thinking is defined and enable_thinking is false -%}{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}
{%- endif -%}"""
"""Turns between two marks. The model opens its thinking itself, and the switch fills in an empty one."""

OPENED = """\
{{- bos_token -}}
{%- for message in messages -%}
{%- if message.role == 'user' -%}{{- '<|User|>' + message.content -}}
{%- else -%}{{- '<|Assistant|>' + message.content.split('</think>')[-1] + '<|turn_ends|>' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|Assistant|><think>\\n' -}}{%- endif -%}"""
"""Marks between turns, an end only after an answer, and thinking that is open from the beginning and has no switch."""

TURNS = {SWITCHED: "<|im_end|>", OPENED: "<|turn_ends|>"}
_SPECIAL = ("<|endoftext|>", "<|begin|>", "<|im_start|>", "<|im_end|>", "<|User|>", "<|Assistant|>", "<|turn_ends|>")
_THINKING = ("<think>", "</think>")
VOCABULARY = 256 + len(_SPECIAL) + len(_THINKING)
END_OF_TEXT = 256


def save_chat_model(folder: Path, template: str, *, model: Any = None, special_thinking: bool = False) -> Path:
    """A folder with weights (by default a Qwen3), tokenizer and chat template. Its configuration names the end of a
    text as its end token, as base models do, and not the end of a turn. `special_thinking`: the tokenizer counts the
    marks of thinking as special tokens."""

    def write(target: Path) -> None:
        (model or qwen3(0)).save_pretrained(target)
        tokenizer_of(template, special_thinking).save_pretrained(target)

    write_atomically(folder, write)
    return folder


def tokenizer_of(template: str, special_thinking: bool = False) -> Any:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(_SPECIAL))
    marks = [AddedToken(mark, special=special_thinking, normalized=False) for mark in _THINKING]
    (tokenizer.add_special_tokens if special_thinking else tokenizer.add_tokens)(marks)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|endoftext|>", bos_token="<|begin|>", chat_template=template
    )


def qwen3(seed: int) -> Qwen3ForCausalLM:
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=2048,
        eos_token_id=END_OF_TEXT,
        bos_token_id=None,
        pad_token_id=None,
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(config)


def qwen3_5(seed: int) -> Any:
    """The text model, with one layer of linear attention and one of full attention."""
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    config = Qwen3_5TextConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        layer_types=["linear_attention", "full_attention"],
        max_position_embeddings=2048,
        eos_token_id=END_OF_TEXT,
        bos_token_id=None,
        pad_token_id=None,
    )
    torch.manual_seed(seed)
    return Qwen3_5ForCausalLM(config)


def qwen3_5_whole(seed: int, layers: tuple[str, ...] = ("full_attention", "full_attention"), **shape: Any) -> Any:
    """The whole model, which sees too, with text layers of these kinds and of this shape."""
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    text = {**qwen3_5(seed).config.to_dict(), "layer_types": list(layers), "tie_word_embeddings": True, **shape}
    seen = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 64}
    torch.manual_seed(seed)
    config = Qwen3_5Config(text_config=text, vision_config=seen, tie_word_embeddings=True)
    return Qwen3_5ForConditionalGeneration(config)


def never_ends(model: Any) -> Any:
    """The whole model, in which no token that ends a text or a turn is ever sampled: one number of the residual stream
    is the same at every token, and these tokens weigh it against them."""
    text = model.model.language_model
    with torch.no_grad():
        for name, weight in text.named_parameters():
            if name.endswith(("out_proj.weight", "o_proj.weight", "down_proj.weight")):
                weight[0] = 0.0
        embedding = text.embed_tokens.weight
        embedding[:, 0] = 2.0
        for end in (END_OF_TEXT, *(256 + _SPECIAL.index(mark) for mark in TURNS.values())):
            embedding[end] = 0.0
            embedding[end, 0] = -40.0
    return model
