"""How long the stages of a run took, read from its rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.events import FreshScore
from pace_async.population.reading.reader import open_readonly
from pace_async.population.reading.timings import recorded_seconds
from pace_async.simulate.recorded import recorded_durations
from tests.support.population_facts import advised, evaluated, fresh, opened, seed_program


def tried(seed: int, held: bool) -> FreshScore:
    return FreshScore(seed, 2.6, "ok", 2.5, 0.96, held, 8.0)


async def test_the_time_of_a_confirmation_belongs_to_the_evaluation(tmp_path: Path) -> None:
    """Of three programs one is believed, one is tried on two instances, and one on the first of these again: the task's
    own program was scored once on each."""
    confirmed = {1: (), 2: (tried(11, held=False), tried(12, held=True)), 3: (tried(11, held=True),)}
    async with fresh(tmp_path) as store:
        for lease, fresh_scores in confirmed.items():
            ended = replace(evaluated(lease, score=2.0 + lease / 10), fresh=fresh_scores)
            await store.commit(opened(lease), advised(lease), ended)
    own, each = seed_program().seconds, evaluated(1).seconds
    with open_readonly(tmp_path / "population.db") as reader:
        like = recorded_durations(reader.ask(recorded_seconds), seed=0)
    assert like.evaluations == pytest.approx((each, each + 16.0 + 2 * own, each + 8.0))
    assert like.evaluation_mean == pytest.approx(each + (24.0 + 2 * own) / 3)
