"""With several objectives: whom an island keeps, whom it changes, and whom it takes from others."""

from itertools import pairwise
from random import Random

import pytest

from pace_async.aims import Aim, value_of, weights_of
from pace_async.config import SearchConfig
from pace_async.fitness import fitness_of
from pace_async.search.front import dominates
from pace_async.search.islands import after_evaluation, first_island
from pace_async.search.parents import choose_migrant, parent_of, taken_in, weighed
from pace_async.search.state import Island, Member, rules_of

FITNESS = fitness_of("maximize", 0.0, 1.0, (Aim("a", False, 0.0, 1.0), Aim("b", False, 0.0, 1.0)))


def at(number: int, a: float, b: float) -> Member:
    costs = (0.0, a, b)
    return Member(number, f"program {number}", value_of(costs), costs=costs)


LINE = [at(number, number / 10, 1 - number / 10) for number in range(11)]
BEHIND = [at(20 + number, 0.7, 0.7 + number / 100) for number in range(20)]


def island_of(members: list[Member], kept: int = 100) -> Island:
    rules = rules_of(SearchConfig(members_kept=kept), FITNESS)
    island = first_island(1, members[0])
    for member in members[1:]:
        island = after_evaluation(
            island, parent=members[0].candidate, idea=None, trial=None, member=member, rules=rules
        )
    return island


def test_an_island_that_is_full_keeps_its_front_and_how_it_spreads() -> None:
    kept = {member.candidate for member in island_of([*LINE, *BEHIND], 11).members}
    assert kept == {member.candidate for member in LINE}
    few = island_of([*LINE, *BEHIND], 4).members
    assert {0, 10} <= {member.candidate for member in few}
    assert few[0] == LINE[5]


def test_the_best_score_is_the_first_and_is_kept_whatever_else() -> None:
    draw, island = Random(3), island_of([at(0, 0.9, 0.9)], 5)
    best = island.members[0]
    for number in range(1, 200):
        new = at(number, draw.random(), draw.random())
        best = new if new.score > best.score else best
        members = taken_in(island.members, new, FITNESS, 5)
        island = Island(1, members)
        assert members[0] == best
        assert len(members) <= 5
        assert all(a.score >= b.score for a, b in pairwise(members))


def test_each_lease_takes_parents_that_are_good_under_its_weights() -> None:
    island, search = island_of([*BEHIND, *LINE]), SearchConfig(tournament_pool=1)
    drawn = {lease: parent_of(island, search, Random(lease), FITNESS, lease) for lease in range(1, 201)}
    assert len({member.candidate for member in drawn.values()}) >= 8
    for lease, member in drawn.items():
        assert member in LINE
        weights = weights_of(lease, 2)
        best = max(FITNESS.score_of(one.costs, weights) for one in island.members)
        assert FITNESS.score_of(member.costs, weights) == best
        assert member in island.members


def test_a_migrant_is_of_the_front_of_all_islands_and_never_ones_own() -> None:
    own, others = island_of([*BEHIND, LINE[0], LINE[10]]), LINE[1:10]
    drawn = [
        choose_migrant({}, own, FITNESS, Random(n), probability=1.0, size=2, front=tuple(LINE), pool=4, lease=n)
        for n in range(1, 601)
    ]
    assert {member.candidate for member in drawn if member is not None} == {member.candidate for member in others}
    assert None in drawn


def test_beyond_the_bounds_lower_costs_come_first() -> None:
    far, farther = at(2, 3.0, 2.0), at(1, 4.0, 2.0)
    assert [member.candidate for member in weighed([farther, far], FITNESS, 1)] == [2, 1]


@pytest.mark.parametrize("parents", ["tournament", "top_k", "puct"])
def test_every_rule_takes_a_member(parents: str) -> None:
    island, search = island_of(LINE), SearchConfig.model_validate({"parents": parents})
    assert all(parent_of(island, search, Random(lease), FITNESS, lease) in island.members for lease in range(1, 20))
    assert not any(dominates(one.costs, other.costs) for one in LINE for other in LINE)
