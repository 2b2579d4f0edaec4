"""Toys for learning: a Llama of a few thousand weights, and a bandit that it plays.

The bandit has one right answer: a model names one of eight mechanisms, and one of them is rewarded. It can be learned
in 40 groups and a second or two. It uses the whole learner: a causal model, sampled with its logprobs, by versions as
far behind the learner as given.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pace_async.objectives.base import Collapsed, Parameters
from pace_async.objectives.grpo import grpo
from pace_async.replay.group import Group, TrainedCall, TrainedRollout

MECHANISMS = tuple(range(4, 12))
PROMPT = (2, 3, 2)
END = 1
VOCABULARY = 16
LONGEST = 3
GROUP_SIZE = 8


def write_llama(
    folder: Path, *, vocab: int, width: int, layers: int, seed: int = 0, tied: bool = True, context: int = 2048
) -> Path:
    """A Llama with random weights and a tokenizer of `vocab` words (w0 is padding, w1 ends an answer)."""
    cast("Any", torch).manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=context,
        tie_word_embeddings=tied,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
    )
    model: Any = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    words: Any = Tokenizer(models.WordLevel({f"w{index}": index for index in range(vocab)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1")
    tokenizer.save_pretrained(folder)
    return folder


def write_novice(folder: Path) -> Path:
    """A model trained to answer one mechanism and to stop, all mechanisms equally likely."""
    write_llama(folder, vocab=VOCABULARY, width=32, layers=1)
    model: Any = cast("Any", LlamaForCausalLM).from_pretrained(folder)
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ids = torch.tensor([[*PROMPT, mechanism, END] for mechanism in MECHANISMS])
    for _ in range(80):
        logprobs = model(ids).logits[:, len(PROMPT) - 1 : -1].log_softmax(-1)
        loss = -logprobs.gather(-1, ids[:, len(PROMPT) :, None]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    return folder


def probabilities(model: Any) -> dict[int, float]:
    """How likely each mechanism is as the first word."""
    with torch.no_grad():
        first = model(torch.tensor([PROMPT])).logits[0, -1].softmax(-1)
    return {mechanism: float(first[mechanism]) for mechanism in MECHANISMS}


def copied(policy: Any) -> Any:
    """A model with the present weights of `policy`. Not `copy.deepcopy`: a policy prepared for training has its own
    `forward`, bound to itself, so a deep copy would still compute with the original's weights."""
    copy: Any = LlamaForCausalLM(policy.config)
    copy.load_state_dict(policy.state_dict())
    return copy.eval()


def sample(model: Any, version: int, draws: torch.Generator, longest: int = LONGEST) -> list[TrainedCall]:
    """A group's answers, each at most `longest` tokens, all by `version`."""
    ids = torch.tensor([PROMPT]).repeat(GROUP_SIZE, 1)
    taken: list[torch.Tensor] = []
    for _ in range(longest):
        with torch.no_grad():
            scores = model(ids).logits[:, -1].log_softmax(-1)
        tokens = torch.multinomial(scores.exp(), 1, generator=draws)
        ids = torch.cat([ids, tokens], dim=1)
        taken.append(scores.gather(1, tokens))
    logprobs = torch.cat(taken, dim=1)
    return [_call(row, scored, version) for row, scored in zip(ids[:, len(PROMPT) :], logprobs, strict=True)]


def _call(row: torch.Tensor, scored: torch.Tensor, version: int) -> TrainedCall:
    answer: Sequence[int] = [int(token) for token in row]
    length = answer.index(END) + 1 if END in answer else len(answer)
    logprobs = [min(0.0, float(value)) for value in scored[:length]]
    return TrainedCall(PROMPT, tuple(answer[:length]), tuple(logprobs), (version,) * length)


def _rescored(model: Any, version: int, call: TrainedCall) -> TrainedCall:
    ids = torch.tensor([[*call.prompt_ids, *call.completion_ids]])
    with torch.no_grad():
        scores = model(ids).logits[0, len(call.prompt_ids) - 1 : -1].log_softmax(-1)
    logprobs = scores.gather(1, ids[0, len(call.prompt_ids) :, None])[:, 0]
    return _call(ids[0, len(call.prompt_ids) :], logprobs, version)


class Bandit:
    """Groups sampled by the version `stale` behind the newest of `versions` (models, version 0 first), one mechanism
    rewarded with 1 and all others with 0. With `pretend` the record says that the newest version sampled every token,
    which is equal to training without a correction."""

    def __init__(self, novice: Any, *, seed: int, stale: int = 0, shuffle: bool = False, pretend: bool = False) -> None:
        self.versions = [novice]
        self.rewarded = MECHANISMS[seed % len(MECHANISMS)]
        self._stale, self._shuffle, self._pretend = stale, shuffle, pretend
        self._draws, self._order = torch.Generator().manual_seed(seed), random.Random(seed)

    def group(self, number: int) -> Group | None:
        """The next group, or None if all rewards are equal."""
        newest = len(self.versions) - 1
        version = max(0, newest - self._stale)
        calls = sample(self.versions[version], version, self._draws)
        rewards = [1.0 if self.rewarded in call.completion_ids else 0.0 for call in calls]
        if self._shuffle:
            self._order.shuffle(rewards)
        advantages = grpo(np.array(rewards), Parameters(k=1))
        if isinstance(advantages, Collapsed):
            return None
        if self._pretend:
            calls = [_rescored(self.versions[newest], newest, call) for call in calls]
        rollouts = tuple(
            TrainedRollout(number * GROUP_SIZE + place, float(advantage), reward, (call,))
            for place, (call, reward, advantage) in enumerate(zip(calls, rewards, advantages, strict=True))
        )
        return Group(number, newest, "grpo", 0.0, self._stale, rollouts)

    @property
    def found(self) -> float:
        """The newest version's probability of the rewarded mechanism."""
        return probabilities(self.versions[-1])[self.rewarded]
