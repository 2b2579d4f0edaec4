"""Dominance, crowding and hypervolume: known cases, properties, and the same answers as pymoo where it is installed."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.aims import Aim, Costs, aims_of, costs_of, text_of, value_of
from pace_async.search.front import by_front, crowding, dominates, front_of, hypervolume, least_crowded, ranks

FIVE = [(0.0, 0.1, 0.9), (0.0, 0.5, 0.5), (0.0, 0.9, 0.1), (0.0, 0.6, 0.6), (0.2, 0.0, 0.0)]
numbers = st.floats(0, 1).map(lambda value: round(value, 2))
points = st.lists(st.tuples(st.sampled_from([0.0, 0.0, 0.3]), numbers, numbers, numbers), min_size=1, max_size=12)


@dataclass(frozen=True)
class One:
    candidate: int
    costs: Costs


def named(costs: list[Costs]) -> list[One]:
    return [One(number, each) for number, each in enumerate(costs)]


def spread(count: int, objectives: int, seed: int) -> list[Costs]:
    draw = random.Random(seed)
    return [(0.0, *(draw.random() for _ in range(objectives))) for _ in range(count)]


def test_a_program_that_breaks_a_constraint_stands_behind_all_that_break_none() -> None:
    assert ranks(FIVE) == [0, 0, 0, 1, 2]
    assert [one.candidate for _, one in by_front(named(FIVE))] == [0, 2, 1, 3, 4]


def test_ends_are_never_crowded_and_others_by_the_gap_between_their_neighbours() -> None:
    inf = float("inf")
    assert crowding(FIVE[:3]) == [inf, 2.0, inf]
    line = [(0.0, at / 10, 1 - at / 10) for at in (0, 1, 5, 10)]
    assert [one.candidate for one in least_crowded(named(line))] == [0, 3, 2, 1]


def test_the_hypervolume_of_known_fronts_is_exact() -> None:
    assert hypervolume([]) == 0.0
    assert hypervolume([(0.0, 0.5, 0.5)]) == 0.25
    assert hypervolume(FIVE) == pytest.approx(0.1 * 0.9 + 0.4 * 0.5 + 0.4 * 0.1)
    assert hypervolume([(0.0, 0.5, 0.5, 0.5), (0.0, 0.0, 1.0, 0.0)]) == 0.125
    assert hypervolume([(0.0, 0.5, 0.5, 0.5), (0.0, 0.75, 0.25, 0.5)]) == pytest.approx(0.125 + 0.25 * 0.25 * 0.5)
    assert hypervolume([(0.0, -3.0, 0.5), (0.1, 0.0, 0.0), (0.0, 2.0, 0.0)]) == 0.5


@given(points)
def test_the_front_is_what_nothing_dominates_in_whatever_order_programs_come(costs: list[Costs]) -> None:
    things = named(costs)
    front = front_of(things)
    assert front == front_of(things[::-1])
    assert {one.costs for one in front} == {a for a in costs if not any(dominates(b, a) for b in costs)}
    assert {one.costs for one, rank in zip(things, ranks(costs), strict=True) if rank == 0} == {
        one.costs for one in front
    }


@given(points)
def test_what_is_dominated_adds_nothing_to_the_hypervolume(costs: list[Costs]) -> None:
    assert hypervolume(costs) == pytest.approx(hypervolume([one.costs for one in front_of(named(costs))]))


@given(points)
def test_what_dominates_another_within_the_bounds_has_the_better_score(costs: list[Costs]) -> None:
    assert all(value_of(a) > value_of(b) for a in costs for b in costs if a[0] != b[0] and dominates(a, b))
    assert all(value_of(a) > value_of(b) - 1e-12 for a in costs for b in costs if dominates(a, b))
    assert all(0.0 <= value_of(a) <= 1.0 for a in costs if a[0] == 0.0)


def test_a_score_is_nearest_to_one_where_the_worst_objective_is_nearest_to_its_better_bound() -> None:
    aims = (Aim("seconds", False, 0.0, 10.0, at_most=8.0), Aim("balance", True, 0.5, 1.0))
    assert costs_of(aims, {"seconds": 5.0, "balance": 0.75, "other": 1.0}) == (0.0, 0.5, 0.5)
    assert value_of((0.0, 0.5, 0.5)) == pytest.approx(0.5)
    assert value_of((0.0, 0.0, 0.0)) == 1.0
    assert value_of((0.0, 2.0, 1.0)) == 0.0
    assert value_of((0.0, 0.2, 0.8), (1.0, 0.0)) == pytest.approx(0.8)
    assert value_of(costs_of(aims, {"seconds": 9.0, "balance": 1.0})) == pytest.approx(-0.1)
    assert costs_of(aims, {"seconds": 5.0}) == ()
    assert aims_of(text_of(aims)) == aims
    assert text_of(()) is None


@pytest.mark.parametrize("objectives", [2, 3])
def test_pymoo_gives_the_same_ranks_crowding_and_hypervolume(objectives: int) -> None:
    sorting: Any = pytest.importorskip("pymoo.util.nds.non_dominated_sorting")
    metrics: Any = pytest.importorskip("pymoo.operators.survival.rank_and_crowding.metrics")
    hv: Any = pytest.importorskip("pymoo.indicators.hv")
    for seed in range(10):
        costs = spread(60, objectives, seed)
        plain = np.array(costs)[:, 1:]
        expected = [0] * len(costs)
        for rank, front in enumerate(sorting.NonDominatedSorting().do(plain)):
            for place in front:
                expected[place] = rank
        assert ranks(costs) == expected
        front = [each for each, rank in zip(costs, expected, strict=True) if rank == 0]
        own = np.array(crowding(front))
        theirs = metrics.calc_crowding_distance(np.array(front)[:, 1:])
        inner = np.isfinite(theirs)
        assert (np.isfinite(own) == inner).all()
        assert own[inner] / objectives == pytest.approx(theirs[inner])
        assert hypervolume(costs) == pytest.approx(hv.HV(ref_point=np.ones(objectives))(plain))
