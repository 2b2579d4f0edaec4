"""How much of a rollout's advantage each token of its proposed ideas gets.

A proposal has three ideas, and at most one of them is carried out. In the paper all their tokens share the reward of
its candidate, also those of ideas that had no part in it. With a share below 1 the tokens of ideas that were not
carried out get only that part of the advantage. Tokens before the first idea get it whole, so does an answer without an
experiment: nothing tells which of its tokens were at fault. The ideas are those that `answers` reads. Pure.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Protocol

from pace_async.answers import after_thinking, idea_starts
from pace_async.replay.group import Group


class Tokenizer(Protocol):
    """What of a tokenizer of `transformers` is used here."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str: ...


def decoder_of(tokenizer: Tokenizer, end_of_thinking: str) -> Callable[[Sequence[int]], str]:
    """Decodes tokens as an engine decodes an answer: without special tokens, except the mark of the end of thinking."""
    mark = tokenizer.encode(end_of_thinking, add_special_tokens=False)
    spelled, kept = (tokenizer.decode(mark, skip_special_tokens=skips) for skips in (False, True))
    if len(mark) != 1 or spelled != end_of_thinking or kept:
        return lambda ids: tokenizer.decode(ids, skip_special_tokens=True)

    def text_of(ids: Sequence[int]) -> str:
        begins = [0, *(place for place, token in enumerate(ids, start=1) if token == mark[0])]
        parts = zip(begins, [*begins[1:], len(ids)], strict=True)
        return end_of_thinking.join(tokenizer.decode(ids[begin:end], skip_special_tokens=True) for begin, end in parts)

    return text_of


def shares_of(
    group: Group, text_of: Callable[[Sequence[int]], str], other: float, end_of_thinking: str
) -> dict[int, Sequence[float]]:
    """For each lease whose tokens do not all count alike, the share of each answer token of its first call. `text_of`
    decodes tokens, `other` is the share of ideas that were not carried out."""
    if other == 1.0:
        return {}
    shares: dict[int, Sequence[float]] = {}
    for rollout in group.rollouts:
        if rollout.carried_out is not None:
            ids = rollout.calls[0].completion_ids
            ideas = ideas_of_tokens(ids, text_of, end_of_thinking)
            shares[rollout.lease] = [1.0 if idea in (0, *rollout.carried_out) else other for idea in ideas]
    return shares


def ideas_of_tokens(ids: Sequence[int], text_of: Callable[[Sequence[int]], str], end_of_thinking: str) -> list[int]:
    """The number of the idea in which each token of an answer ends. 0: before the first one. A token may hold the end
    of a line and the next heading. A token without text is of the idea before it. The first bytes of a character may be
    more characters in text than it: no token ends behind one that follows it."""
    text = text_of(ids)
    thought = len(text) - len(after_thinking(text, end_of_thinking))
    starts = [(thought + place, number) for place, number in idea_starts(text[thought:])]
    lengths = [len(text_of(ids[: place + 1])) for place in range(len(ids))]
    ends = [*accumulate(reversed(lengths), min)][::-1]
    return [max(((start, idea) for start, idea in starts if start < end), default=(0, 0))[1] for end in ends]
