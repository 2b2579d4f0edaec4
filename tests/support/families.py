"""Small models of several families, with random weights and a tokenizer of words."""

import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import torch
import transformers

from scripts.benchmarks.toys import write_llama

VOCAB = 40
_USUAL: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "tie_word_embeddings": False,
}
_SMALL: dict[str, Any] = {"vocab_size": VOCAB, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", _USUAL),
    "granite": ("Granite", _USUAL),
    "qwen2": ("Qwen2", _USUAL),
    "mixtral": ("Mixtral", {**_USUAL, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen3_moe": (
        "Qwen3Moe",
        {**_USUAL, "head_dim": 8, "moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2},
    ),
    "gpt_oss": ("GptOss", {**_USUAL, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "phi3": ("Phi3", _USUAL),
    "gemma2": ("Gemma2", {**_USUAL, "head_dim": 8, "sliding_window": 512}),
    "gpt2": ("GPT2", {**_SMALL, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}),
    "opt": (
        "OPT",
        {
            **_SMALL,
            "hidden_size": 32,
            "ffn_dim": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "word_embed_proj_dim": 32,
            "max_position_embeddings": 512,
        },
    ),
}
"""Name of the class before `Config` and `ForCausalLM`, and its settings, by family."""


def write_model(folder: Path, family: str, *, dtype: torch.dtype = torch.float32, seed: int = 0, **more: Any) -> Path:
    """Write a model of the family with settings of its config.json beside the usual ones."""
    kind, settings = FAMILIES[family]
    config: Any = getattr(transformers, f"{kind}Config")(
        **settings, **deepcopy(more)
    )  # some change what they are given
    cast("Any", torch).manual_seed(seed)
    model_class: Any = getattr(transformers, "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM")
    model: Any = model_class(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(3.0)  # so that attention looks at something
    model.to(dtype).save_pretrained(folder)
    tokens = folder.parent / f"{folder.name}.tokens"
    write_llama(tokens, vocab=VOCAB, width=8, layers=1)
    for file in tokens.glob("tokenizer*"):
        shutil.copy(file, folder / file.name)
    shutil.rmtree(tokens)
    return folder
