"""Crossing over: an island takes in the ideas of another and starts its next rollout from that one's best program.

The partner is seen as of its rollouts whose lease is closed, so under `--sync` as of the last group. Its ideas arrive
with their experiments and under new numbers. The cap holds: of both pools the ideas that were used last stay.
"""

from dataclasses import replace

from pace_async.events import IdeaTaken
from pace_async.search.ideas import Pool, interleaved, words
from pace_async.search.state import Idea


def news(pool: Pool, theirs: Pool) -> Pool:
    """Those of the partner's ideas that `pool` does not hold already in the same words."""
    known = {words(idea.description) for idea in pool}
    return tuple(idea for idea in theirs if words(idea.description) not in known)


def take_in(pool: Pool, arriving: Pool, next_number: int, cap: int) -> tuple[Pool, tuple[IdeaTaken, ...], int]:
    """(pool, what was taken in, next number). Pools are ordered by use, the stalest first; at equal place an arriving
    idea counts as used later. Taking in what was taken of `arriving`, and nothing else, gives the same."""
    own, new = [(idea, False) for idea in pool], [(idea, True) for idea in arriving]
    merged: list[Idea] = []
    taken: list[IdeaTaken] = []
    for idea, arrives in interleaved(own, new)[-cap:]:
        if arrives:
            taken.append(IdeaTaken(number=next_number + len(taken), description=idea.description, origin=idea.number))
        merged.append(replace(idea, number=taken[-1].number) if arrives else idea)
    return tuple(merged), tuple(taken), next_number + len(taken)
