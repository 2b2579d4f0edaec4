"""Scores of a corrected evaluator come into force together, on SQLite and PostgreSQL, and refuse what cannot follow."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pace_async.errors import PaceBug
from pace_async.events import EpochInForce, FreshScore, LeaseAborted, RescoreBegan, Rescored
from pace_async.population.reading.reader import open_readonly
from tests.support.population_facts import (
    BOTH,
    advised,
    evaluated,
    fresh,
    opened,
    populations_of,
    rescored,
    rollout,
    shipped,
    trained,
)

AGAIN = RescoreBegan(1, "mended", None, 7000.0)


@pytest.mark.parametrize("place", BOTH, indirect=True)
def test_scores_come_into_force_together(place: pytest.FixtureRequest, tmp_path: Path) -> None:
    async def make() -> object:
        async with fresh(tmp_path) as store:
            await store.commit(*rollout(1, 1, 2.1), *rollout(2, 1, 2.2), shipped(1, (1,)), trained(1, (1,)))
            held = FreshScore(1, 2.4, "ok", 2.3, 0.9, True, 0.5)
            await store.commit(opened(3), advised(3), replace(evaluated(3, 1, 2.4), fresh=(held,)), opened(4))
            before = await store.query("select candidate, score from leaderboard order by rank")
            await store.commit(AGAIN, *(rescored(one, score) for one, score in ((0, 0.5), (1, 9.0), (2, None))))
            assert await store.query("select candidate, score from leaderboard order by rank") == before
            await store.commit(LeaseAborted(4, 1, "rescored", "", 7002.0), EpochInForce(1, 4, 7002.0))
            return store.place

    with populations_of(place), open_readonly(anyio.run(make)) as reader:  # pyright: ignore[reportArgumentType]
        rows = reader.query("select candidate, outcome, score, reward from candidates order by candidate")
        assert [tuple(row.values()) for row in rows] == [
            (0, "ok", 0.5, 0.0),
            (1, "ok", 9.0, 3.0),  # it was trained: its reward stays
            (2, "invalid_score", None, -1.0),
            (3, "below_threshold", None, 3.0),
        ]
        kept = reader.query("select candidate, score from rescores where epoch = 0 order by candidate")
        assert [tuple(row.values()) for row in kept] == [(0, 0.9598), (1, 2.1), (2, 2.2), (3, 2.4)]
        assert reader.header().task_digest == "mended"
        assert (reader.best()["candidate"], reader.best()["fresh_score"]) == (1, None)
        record = reader.record()
    assert record.own_scores == {}
    assert [member.candidate for member in record.run_state.islands[1].members] == [1, 0]
    assert {lease: each.reward for lease, each in record.run_state.complete.items()} == {2: -1.0, 3: 3.0}


@pytest.fixture
def place(request: pytest.FixtureRequest) -> pytest.FixtureRequest:
    return request


@pytest.mark.parametrize(
    "facts",
    [
        (replace(AGAIN, epoch=2),),
        (AGAIN, AGAIN),
        (rescored(1, 2.0),),
        (AGAIN, rescored(1, 2.0), rescored(1, 2.0)),
        (AGAIN, rescored(7, 2.0)),
        (AGAIN, EpochInForce(1, 1, 7002.0), EpochInForce(1, 1, 7002.0)),
        (AGAIN, EpochInForce(1, 1, 7002.0), rescored(1, 2.0)),
        (EpochInForce(1, 1, 7002.0),),
    ],
)
def test_what_cannot_follow_is_refused(
    facts: tuple[RescoreBegan | Rescored | EpochInForce, ...], tmp_path: Path
) -> None:
    async def make() -> None:
        async with fresh(tmp_path) as store:
            await store.commit(*rollout(1))
            await store.commit(*facts)

    with pytest.raises(PaceBug):
        anyio.run(make)
