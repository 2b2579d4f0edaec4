"""Scores that were measured several times: their mean, its standard error, and how parents are chosen with it. Pure.

Where equal programs get different scores, the best of many is partly luck, the more so the fewer evaluations it rests
on. So parents are compared by a lower confidence bound, one standard error below the mean, as races compare policies of
noisy value (Heidrich-Meisner and Igel 2009, "Hoeffding and Bernstein races for selecting policies in evolutionary
direct policy search", ICML):

    bound = merit - sigma / sqrt(evaluations)

sigma is one for all programs: the pooled standard deviation of the evaluations of those that have several. Before there
are any, and where nothing differs, programs are compared by their scores.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from pace_async.fitness import Fitness
from pace_async.search.state import Member

Repeated = Mapping[int, tuple[float, ...]]
"""The scores of all evaluations of a candidate, of those with several."""


NONE: Repeated = {}


@dataclass(frozen=True, slots=True)
class Spread:
    """How many evaluations a score is the mean of, and the standard error of the mean, None for a single one."""

    evaluations: int = 1
    standard_error: float | None = None

    @classmethod
    def of(cls, scores: Sequence[float]) -> "Spread":
        if len(scores) < 2:
            return cls()
        return cls(len(scores), stdev(scores) / math.sqrt(len(scores)))


def bounded(members: Sequence[Member], repeated: Repeated, fitness: Fitness) -> tuple[Member, ...]:
    """The members with their lower confidence bounds in place of their scores, the best first. They are unchanged if
    none has several evaluations that differ."""
    several = [scores for member in members if len(scores := repeated.get(member.candidate, ())) > 1]
    squares = sum((score - fmean(scores)) ** 2 for scores in several for score in scores)
    if not squares:
        return tuple(members)
    sigma = math.sqrt(squares / sum(len(scores) - 1 for scores in several))
    lowered_members = (
        replace(member, score=fitness.merit(fitness.merit(member.score) - sigma / math.sqrt(_count(member, repeated))))
        for member in members
    )
    return tuple(sorted(lowered_members, key=lambda member: (-fitness.merit(member.score), member.candidate)))


def _count(member: Member, repeated: Repeated) -> int:
    return max(1, len(repeated.get(member.candidate, ())))
