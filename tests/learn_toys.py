"""Small models and groups for the tests of learning: real ones, only little."""

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pace_async.replay.group import Group, TrainedCall, TrainedRollout


def write_llama(folder: Path, *, vocab: int, width: int, layers: int, seed: int = 0, tied: bool = True) -> Path:
    """A Llama with random weights and a tokenizer of `vocab` words (w0 is padding, w1 ends an answer)."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        tie_word_embeddings=tied,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
    )
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"w{index}": index for index in range(vocab)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1").save_pretrained(folder)
    return folder


def random_group(
    *,
    vocab: int,
    seed: int = 0,
    update: int = 0,
    number: int = 1,
    rollouts: int = 8,
    calls: int = 3,
    prompt: tuple[int, int] = (5, 20),
    answer: tuple[int, int] = (2, 9),
    logprob: float | None = None,
    max_age: int = 0,
) -> Group:
    """Ragged calls of random tokens. Logprobs near ln(1/vocab), or `logprob` for each token."""
    draws = np.random.default_rng(seed)

    def call() -> TrainedCall:
        p, t = draws.integers(*prompt, endpoint=True), draws.integers(*answer, endpoint=True)
        near = -np.log(vocab) + 0.3 * draws.standard_normal(t)
        return TrainedCall(
            tuple(draws.integers(2, vocab, p).tolist()),
            tuple(draws.integers(1, vocab, t).tolist()),
            tuple(near.clip(max=0).tolist() if logprob is None else [logprob] * t),
            tuple((update - draws.integers(0, min(max_age, update), t, endpoint=True)).tolist()),
        )

    return Group(
        number=number,
        update=update,
        objective="grpo",
        alpha=0.0,
        max_staleness=2,
        rollouts=tuple(
            TrainedRollout(
                lease=lease,
                advantage=float(draws.standard_normal()),
                reward=float(draws.uniform(-1, 5)),
                calls=tuple(call() for _ in range(int(draws.integers(1, calls, endpoint=True)))),
            )
            for lease in range(1, rollouts + 1)
        ),
    )
