"""Crossing over: an island takes in the ideas of another and starts its next rollout from that one's best program.

The partner is seen as of its rollouts whose lease is closed, so under `--sync` as of the last group. Its ideas arrive
with their experiments and under new numbers. The cap holds: of both pools the ideas that were used last stay.
"""

from dataclasses import replace

from pace_async.events import IdeaTaken
from pace_async.search.ideas import Pool, interleaved
from pace_async.search.state import Idea


def take_in(pool: Pool, arriving: Pool, next_number: int, cap: int) -> tuple[Pool, tuple[IdeaTaken, ...], int]:
    """(pool, what was taken in, next number). An arriving idea whose description the pool holds already is left out.
    Pools are ordered by use, the stalest first; at equal place an arriving one counts as used later."""
    known = {idea.description for idea in pool}
    own = [(idea, False) for idea in pool]
    fresh = [(idea, True) for idea in arriving if idea.description not in known]
    merged: list[Idea] = []
    taken: list[IdeaTaken] = []
    for idea, arrives in interleaved(own, fresh)[-cap:]:
        if arrives:
            taken.append(IdeaTaken(number=next_number + len(taken), description=idea.description, origin=idea.number))
        merged.append(replace(idea, number=taken[-1].number) if arrives else idea)
    return tuple(merged), tuple(taken), next_number + len(taken)
