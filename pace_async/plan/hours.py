"""How long a run may take, before it begins: a range, because nobody knows how long its evaluations take. Pure.

The speeds here are assumptions. They decide little where evaluations take minutes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

SERVED_TOKENS_S, ASKED_TOKENS_S = 30.0, 50.0
"""Assumed tokens a second of one answer: of an advisor that is served beside others, and of a model over the
network."""
LEARNER_FLOPS = 150e12
"""Assumed arithmetic of a learner's card in a second, about a seventh of what an H100 is sold with."""
PASSES = 8
"""Operations for a weight and a token of a step: two forward, four backward, two where activations are recomputed."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds of the stages of one candidate, and of a group that is trained and published."""

    advice: float
    program: float
    evaluation: float
    training: float


@dataclass(frozen=True, slots=True)
class Shape:
    """How candidates go through a run. `barrier`: all of a group end before the next begins."""

    candidates: int
    group_size: int
    threads: int
    slots: int
    barrier: bool


def training_seconds(parameters: int, tokens: int, push_s: float) -> float:
    """Of a group of `tokens` tokens in all calls."""
    return PASSES * float(parameters) * tokens / LEARNER_FLOPS + push_s


def seconds_of(shape: Shape, pace: Pace) -> float:
    """A run's seconds. Behind a barrier the stages of a group follow one another. Else what is slowest decides: the
    threads, the evaluations or the learner."""
    groups = shape.candidates / shape.group_size
    call_seconds, scored = pace.advice + pace.program, pace.evaluation
    if shape.barrier:
        rounds = math.ceil(shape.group_size / shape.threads)
        evaluations = math.ceil(shape.group_size / min(shape.slots, shape.threads))
        return groups * (rounds * call_seconds + evaluations * scored + pace.training)
    threads = shape.candidates * (call_seconds + scored) / shape.threads
    return max(threads, shape.candidates * scored / shape.slots, groups * pace.training)


def answering(tokens: Mapping[str, float], tokens_s: float) -> float:
    """Seconds of answers of so many tokens, one after the other."""
    return sum(tokens.values()) / tokens_s


def in_words(shape: Shape, least: Pace, most: Pace) -> str:
    """Two ends of a run, in hours: evaluations that take no time, and those that take all of theirs."""
    low, high = (f"{max(seconds_of(shape, pace) / 3600, 0.1):.2g}" for pace in (least, most))
    return (
        f"{float(low):g} to {float(high):g}, by speeds that are assumed: the first with usual answers and evaluations "
        f"that take no time, the second with the longest answers and {most.evaluation:g} s for each evaluation"
    )
