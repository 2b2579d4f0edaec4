"""A population of candidates that can write their own scores, some of them evaluated twice."""

from dataclasses import replace
from pathlib import Path

from pace_async.events import Evaluated, FreshScore, RunHeader
from tests.support.population_facts import HEADER, advised, evaluated, fresh, opened

CLAIMED = replace(HEADER, trust="shared")
SCORES = {1: (2.40, 2.39), 2: (2.50, 2.35), 3: (2.60, 2.42), 4: (2.70, 2.41), 5: (2.65, None)}
"""Of each candidate the score, and that of its second evaluation."""


def complete(lease: int, score: float, again: float | None) -> Evaluated:
    tries = () if again is None else (FreshScore(1, score, "ok", again, 0.9, True, 0.5),)
    return replace(evaluated(lease, 1, score), fresh=tries)


async def begun(folder: Path, header: RunHeader, *more: object) -> object:
    async with fresh(folder, header) as store:
        for lease, (score, again) in SCORES.items():
            signed = -1.0 if header.direction == "minimize" else 1.0
            twice = None if again is None else signed * again
            await store.commit(opened(lease), advised(lease), complete(lease, signed * score, twice))
        if more:
            await store.commit(*more)  # pyright: ignore[reportArgumentType]
        return store.place
