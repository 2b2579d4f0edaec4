"""How scores compare: what holds for any fitness of one number."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.fitness import Fitness, fitness_of
from tests.support.fitness import DOWN, UP, either

scores = st.floats(-1e3, 1e3)


@dataclass(frozen=True)
class Tried:
    candidate: int
    score: float | None


@given(fitness=either, a=scores, b=scores)
def test_better_reaches_merit_and_gain_agree(fitness: Fitness, a: float, b: float) -> None:
    assert fitness.better(a, b) == (fitness.merit(a) > fitness.merit(b)) == (fitness.gain(a, b) > 0)
    assert fitness.reaches(a, b) == (not fitness.better(b, a))
    assert fitness.merit(fitness.merit(a)) == a
    assert fitness.best([a, b]) == (a if fitness.reaches(a, b) else b)


@given(a=scores, b=scores)
def test_a_lower_score_is_better_exactly_where_a_higher_one_is_worse(a: float, b: float) -> None:
    assert UP.better(a, b) == DOWN.better(b, a)
    assert UP.gain(a, b) == DOWN.gain(b, a)


@given(fitness=either, found=st.lists(st.none() | st.sampled_from([-1.0, 0.0, 0.5, 2.0])))
def test_the_ranked_are_those_with_a_score_best_first_then_oldest(
    fitness: Fitness, found: Sequence[float | None]
) -> None:
    tried = [Tried(candidate, score) for candidate, score in enumerate(found)]
    keys = [(-fitness.merit(one.score), one.candidate) for one in tried if one.score is not None]
    assert [one.candidate for one in fitness.ranked(reversed(tried))] == [candidate for _, candidate in sorted(keys)]


@pytest.mark.parametrize(("direction", "worst", "goal"), [("maximize", 2.0, 6.0), ("minimize", 6.0, 2.0)])
def test_progress_goes_from_the_worse_bound_to_the_goal(direction: str, worst: float, goal: float) -> None:
    fitness = fitness_of(direction, 2.0, 6.0)
    assert (fitness.worse_bound, fitness.goal, fitness.name) == (worst, goal, direction)
    assert [fitness.progress(score) for score in (worst, 4.0, goal)] == [0.0, 0.5, 1.0]
    assert fitness.covered(4.0, goal) == fitness.covered(goal, worst) == 1.0
    assert fitness.covered(4.0, worst) == 0.0
