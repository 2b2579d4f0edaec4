"""A short, legal life of a run, as facts: two islands, groups of two, everything that can happen at least once."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pace_async.events import (
    Evaluated,
    Fact,
    FaultSeen,
    GroupEnded,
    ImplementerCalled,
    LeaseAborted,
    RunStateChanged,
    VersionPublished,
)
from pace_async.observe.base import Event
from pace_async.observe.fold import fold
from pace_async.observe.model import RunView
from tests.support.population_facts import advised, evaluated, opened, seed_program, shipped, skipped, trained

BEGIN = 1_000_000.0


def fold_all(view: RunView, events: Iterable[Event]) -> RunView:
    """`view` after all of `events`, in order."""
    for event in events:
        view = fold(view, event)
    return view


def life(seed: int, rollouts: int = 24) -> Iterator[Fact]:
    """Facts in the order of their times, one second apart. Scores rise and fall. One group in five is skipped, one
    lease in eight is aborted, and the last ones stay open."""
    draw = random.Random(seed)
    times = iter(range(10_000))

    def at() -> float:
        return BEGIN + next(times)

    yield RunStateChanged("running", "", at())
    yield replace(seed_program(), at=at())
    complete: list[tuple[int, int]] = []
    version, group = 0, 0
    for lease in range(1, rollouts + 1):
        island = 1 + lease % 2
        yield replace(opened(lease, island, version), at=at())
        if draw.random() < 0.125:
            yield FaultSeen("advise", "engine_died", "it went away", lease, at())
            yield LeaseAborted(lease, island, "engine_died", "it went away", at())
            continue
        yield replace(advised(lease, island, version=version, experiment=f"Change restarts to {lease}."), at=at())
        if lease > rollouts - 2:
            continue
        yield ImplementerCalled(lease, "catalog", "ok", 10, 20, 0.25, 0.1, at())
        score = draw.choice([None, draw.uniform(1.0, 2.6)])
        yield replace(evaluated(lease, island, score), at=at(), memoised=draw.random() < 0.2)
        complete.append((lease, version))
        if len(complete) == 2 and lease < rollouts - 3:
            group += 1
            leases = tuple(number for number, _ in complete)
            ages = tuple(version - sampled for _, sampled in complete)
            rewards = (float(draw.randint(-1, 5)), float(draw.randint(-1, 5)))
            yield replace(shipped(group, leases, update=version), staleness=ages, rewards=rewards, at=at())
            ended: GroupEnded = (skipped if draw.random() < 0.2 else trained)(group, leases, update=version)
            yield replace(ended, at=at())
            complete.clear()
            if ended.closing == "trained":
                version += 1
                yield VersionPublished(version, 0.25, 0.125, {"weight": "d1ce"}, at())


def scored(lease: int, score: float | None, at: float, island: int = 1) -> Evaluated:
    """A complete rollout at a given time."""
    return replace(evaluated(lease, island, score), at=at)
