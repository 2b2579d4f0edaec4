"""Small random models for the engine's tests, and what a plain forward pass says of them."""

from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pace_async.weights import write_atomically

END = 256
NEVER = -300.0


def save_tiny_model(folder: Path, *, seed: int, end_weight: float = NEVER, tied: bool = False) -> Path:
    """A random Llama with a byte tokenizer. The higher `end_weight`, the sooner it ends an answer."""
    write_atomically(folder, lambda target: write_model(target, tiny_model(seed, end_weight, tied)))
    return folder


def tiny_config(tied: bool = False) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=300,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=tied,
        bos_token_id=257,
        eos_token_id=END,
        pad_token_id=None,
    )


def tiny_model(seed: int, end_weight: float = NEVER, tied: bool = False) -> LlamaForCausalLM:
    generator = torch.Generator().manual_seed(seed)
    model = LlamaForCausalLM(tiny_config(tied))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" not in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
        if not tied:
            # The first coordinate of the residual stream is the same at every token and in every layer, so that the end
            # token's probability can be set by its weight on it.
            model.model.embed_tokens.weight[:, 0] = 2.0
            for layer in model.model.layers:
                layer.get_parameter("self_attn.o_proj.weight")[0] = 0.0
                layer.get_parameter("mlp.down_proj.weight")[0] = 0.0
            model.lm_head.weight[END] = 0.0
            model.lm_head.weight[END, 0] = end_weight
    return model


def write_model(folder: Path, model: LlamaForCausalLM) -> None:
    """The model and its tokenizer."""
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>", "<begin>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", bos_token="<begin>")


@cache
def _loaded(folder: Path) -> LlamaForCausalLM:
    return cast("Any", AutoModelForCausalLM).from_pretrained(folder, dtype=torch.float32).eval()


def plain_logprobs(folder: Path, prompt: tuple[int, ...], answer: tuple[int, ...], temperature: float) -> list[float]:
    """Log-probabilities of `answer`'s tokens by one forward pass over everything, without a cache."""
    with torch.inference_mode():
        logits = _loaded(folder)(torch.tensor([prompt + answer]), use_cache=False).logits[0, len(prompt) - 1 : -1]
    logprobs = torch.log_softmax(logits.float() / temperature, dim=-1)
    chosen: Any = logprobs.gather(1, torch.tensor(answer)[:, None])[:, 0]
    return chosen.tolist()
