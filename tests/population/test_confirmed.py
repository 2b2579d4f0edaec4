"""Where programs can write their own scores, or scores are noisy, the best is the one whose second evaluation was the
best."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.events import EpochInForce, RescoreBegan, RunHeader
from pace_async.fitness import ranks_above
from pace_async.observe.model import RunView
from pace_async.population.reading.confirmed import ConfirmedProgram, Equals, equals_of
from pace_async.population.reading.reader import open_readonly
from tests.support.claimed_scores import CLAIMED, begun, complete
from tests.support.fitness import DOWN, UP
from tests.support.observe_facts import fold_all
from tests.support.population_facts import (
    HEADER,
    MINIMISING,
    advised,
    fresh,
    opened,
    rescored,
    seed_program,
)

RANKS = [(3, 2.42), (4, 2.41), (1, 2.39), (2, 2.35), (5, None), (0, None)]


@pytest.mark.long
@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("kind", [CLAIMED, replace(HEADER, noisy=True)], ids=["claimed", "noisy"])
def test_best_leaderboard_and_status_go_by_the_second_evaluation(
    tmp_path: Path, kind: RunHeader, direction: str
) -> None:
    header = replace(kind, direction=direction)
    sign = 1.0 if direction == "maximize" else -1.0
    with open_readonly(anyio.run(begun, tmp_path, header)) as reader:  # pyright: ignore[reportArgumentType]
        best, status = reader.best(), reader.status()
        ranked = reader.query("select candidate, confirmed from leaderboard order by rank")
        record = reader.record()
    expected = [(number, None if again is None else sign * again) for number, again in RANKS]
    assert [(row["candidate"], row["confirmed"]) for row in ranked] == expected
    assert (best["candidate"], best["score"], best["fresh_score"]) == (3, sign * 2.60, sign * 2.42)
    assert (status["best_score"], status["best_fresh_score"]) == (sign * 2.60, sign * 2.42)
    assert best["noise"] == pytest.approx(0.165)  # of 0.01, 0.15, 0.18 and 0.29
    assert best["equal"] == [4, 1, 2]
    assert record.best is not None and record.best.candidate == 3


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("header", [HEADER, MINIMISING])
def test_where_scores_are_hidden_and_exact_they_go_by_the_score(tmp_path: Path, header: RunHeader) -> None:
    with open_readonly(anyio.run(begun, tmp_path, header)) as reader:  # pyright: ignore[reportArgumentType]
        best = reader.best()
        ranked = [row["candidate"] for row in reader.query("select candidate from leaderboard order by rank")]
    assert ranked == [4, 5, 3, 2, 1, 0]
    assert (best["candidate"], best["noise"], best["equal"]) == (4, None, [])


def test_without_a_second_evaluation_the_best_is_the_one_with_the_best_score(tmp_path: Path) -> None:
    async def make() -> object:
        async with fresh(tmp_path, CLAIMED) as store:
            await store.commit(opened(1), advised(1), complete(1, 2.4, None))
            return store.place

    with open_readonly(anyio.run(make)) as reader:  # pyright: ignore[reportArgumentType]
        assert (reader.best()["candidate"], reader.best()["noise"], reader.best()["equal"]) == (1, None, [])
        assert reader.query("select candidate from leaderboard where rank = 1") == [{"candidate": 1}]


def test_what_another_evaluator_confirmed_counts_no_more(tmp_path: Path) -> None:
    again = RescoreBegan(1, "mended", None, 7000.0)
    scores = {0: 1.0, 1: 2.0, 2: 3.0, 3: 1.5, 4: 1.6, 5: 1.7}
    more = (again, *(rescored(one, score) for one, score in scores.items()), EpochInForce(1, 5, 7002.0))
    with open_readonly(anyio.run(begun, tmp_path, CLAIMED, *more)) as reader:  # pyright: ignore[reportArgumentType]
        assert (reader.best()["candidate"], reader.best()["fresh_score"], reader.best()["equal"]) == (2, None, [])
        rows = reader.query("select candidate, confirmed from leaderboard order by rank limit 2")
    assert [tuple(row.values()) for row in rows] == [(2, None), (1, None)]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 5)), min_size=1, max_size=8),
    st.sampled_from(["maximize", "minimize"]),
    st.permutations(range(8)),
)
def test_a_screen_names_the_candidate_that_the_leaderboard_names(
    found: list[tuple[int, int | None]], direction: str, order: list[int]
) -> None:
    facts = [complete(lease, *scores) for lease, scores in enumerate(found, start=1)]
    view = fold_all(RunView(replace(CLAIMED, direction=direction)), [facts[at] for at in order if at < len(facts)])
    sign = -1 if direction == "maximize" else 1
    keys = {
        lease: (again is None, sign * (again or 0), sign * score, lease)
        for lease, (score, again) in enumerate(found, start=1)
    }
    assert view.best is not None
    assert view.best.candidate == min(keys, key=lambda lease: keys[lease])


def test_a_screen_of_other_runs_goes_by_the_score() -> None:
    facts = [seed_program(), complete(1, 2.5, 2.1), complete(2, 2.4, 2.3)]
    best = [fold_all(RunView(header), facts).best for header in (HEADER, CLAIMED)]
    assert [one and one.candidate for one in best] == [1, 2]


def test_a_confirmed_score_counts_before_the_other_and_any_before_none() -> None:
    assert ranks_above(UP, (1.0, 0.5), (2.0, None), by_confirmed=True)
    assert ranks_above(DOWN, (1.0, 0.5), (0.5, 0.6), by_confirmed=True)
    assert ranks_above(UP, (2.0, 0.5), (1.0, 0.5), by_confirmed=True)
    assert not ranks_above(UP, (1.0, 0.5), (2.0, None), by_confirmed=False)


def test_programs_that_differ_by_no_more_than_two_evaluations_of_one_are_equal() -> None:
    tried = (
        ConfirmedProgram(1, 5.0, 5.1),
        ConfirmedProgram(2, 5.3, 5.2),
        ConfirmedProgram(3, 4.0, 4.2),
        ConfirmedProgram(4, 5.2, 5.19),
    )
    assert equals_of(2, tried, UP) == Equals(pytest.approx(0.1), (4, 1))  # pyright: ignore[reportArgumentType]
    exact = (ConfirmedProgram(1, 5.0, 5.0), ConfirmedProgram(2, 5.0, 5.0), ConfirmedProgram(3, 4.9, 4.9))
    assert equals_of(1, exact, UP) == Equals(0.0, (2,))
    assert equals_of(0, (), UP) == Equals(None, ())
