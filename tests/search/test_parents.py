"""The ways to choose a parent other than the tournament."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.config import SearchConfig
from pace_async.fitness import Fitness
from pace_async.registry.parent_rules import PARENT_RULES
from pace_async.search.grid import choose_elite, elites_of
from pace_async.search.islands import after_evaluation, expanded, first_island
from pace_async.search.parents import choose_among_best, choose_parent, parent_of
from pace_async.search.puct import choose_puct
from pace_async.search.state import Island, Member, Visits, rules_of
from tests.support.fitness import BOTH, UP, either

members_of = st.lists(st.floats(-5, 5), min_size=1, max_size=12).map(
    lambda values: UP.ranked(
        Member(i, f"seed\nline {i % 3}\n" + "x" * (i % 4), value) for i, value in enumerate(values)
    )
)
histories = st.lists(st.tuples(st.integers(0, 99), st.one_of(st.none(), st.floats(-5, 5))), min_size=1, max_size=60)


def tried(history: list[tuple[int, float | None]], fitness: Fitness, kept: int) -> tuple[Island, int]:
    """An island after rollouts from these members (by rank, wrapped), and their number."""
    rules = rules_of(SearchConfig(members_kept=kept), fitness)
    island = first_island(1, Member(0, "seed", 0.0))
    for lease, (place, score) in enumerate(history, start=1):
        parent = island.members[place % len(island.members)]
        member = None if score is None else Member(lease, f"program {lease}", score)
        island = after_evaluation(island, parent=parent.candidate, idea=None, trial=None, member=member, rules=rules)
    return island, len(history)


@given(members=members_of, seed=st.integers(), k=st.integers(1, 6))
def test_top_k_takes_one_of_the_best_k(members: list[Member], seed: int, k: int) -> None:
    assert choose_among_best(members, Random(seed), k) in members[:k]


def test_top_k_draws_uniformly() -> None:
    members = [Member(i, f"p{i}", float(-i)) for i in range(10)]
    drawn = [choose_among_best(members, Random(seed), 4).candidate for seed in range(4000)]
    assert {candidate: drawn.count(candidate) / 4000 for candidate in sorted(set(drawn))} == {
        candidate: pytest.approx(0.25, abs=0.03) for candidate in (0, 1, 2, 3)
    }


@pytest.mark.parametrize("fitness", BOTH)
def test_the_worked_example_of_puct(fitness: Fitness) -> None:
    sign = fitness.merit(1.0)
    one, two, child = Member(1, "1", sign), Member(2, "2", 2 * sign), Member(3, "3", 1.5 * sign)
    assert choose_puct([two, one], {}, 1.0) == two
    visits = expanded({}, 2, child, [two, child, one], fitness)
    for _ in range(2):
        visits = expanded(visits, 2, None, [two, child, one], fitness)
    assert visits == {2: Visits(None, 3, 1.5 * sign), 3: Visits(2)}
    assert choose_puct([two, child, one], visits, 1.0) == child
    assert choose_puct([two, child, one], visits, 0.0) == two


@given(members=members_of)
def test_untried_programs_are_taken_best_first(members: list[Member]) -> None:
    assert choose_puct(members, {}, 1.0) == members[0]


@given(history=histories, fitness=either, kept=st.integers(1, 8))
def test_visits_count_every_rollout_and_reach_up_to_the_oldest_ancestor(
    history: list[tuple[int, float | None]], fitness: Fitness, kept: int
) -> None:
    island, rollouts = tried(history, fitness, kept)
    present = {member.candidate for member in island.members}
    assert set(island.visits) <= present
    for candidate, one in island.visits.items():
        assert one.parent is None or one.parent in present
        if one.parent is not None:
            assert one.parent < candidate
            assert island.visits[one.parent].expansions >= one.expansions
    roots = [one.expansions for one in island.visits.values() if one.parent is None]
    assert sum(roots) <= rollouts
    if kept == 8 and rollouts < 8:
        assert sum(roots) == rollouts


@given(history=histories, fitness=either)
def test_puct_tries_everything_that_has_no_descendant_in_the_end(
    history: list[tuple[int, float | None]], fitness: Fitness
) -> None:
    """This holds however good another program is: n grows with every try, so every program is chosen at some time. A
    rollout from a descendant counts as a try of its ancestor."""
    island, _ = tried(history[:6], fitness, 100)
    visits, chosen = island.visits, set[int]()
    leaves = {member.candidate for member in island.members} - {one.parent for one in visits.values()}
    for _ in range(300):
        parent = choose_puct(island.members, visits, 20.0)
        chosen.add(parent.candidate)
        visits = expanded(visits, parent.candidate, None, island.members, fitness)
    assert chosen >= leaves


@given(members=members_of, bins=st.integers(1, 9), seed=st.integers())
def test_the_elite_of_a_cell_is_its_best(members: list[Member], bins: int, seed: int) -> None:
    elites = elites_of(members, "seed", bins)
    assert all(0 <= part < bins for cell in elites for part in cell)
    assert members[0] in elites.values()
    assert 1 <= len(elites) <= min(bins * bins, len(members))
    assert choose_elite(members, "seed", Random(seed), bins) in elites.values()
    if bins == 1:
        assert list(elites.values()) == [members[0]]


def test_programs_that_differ_have_separate_cells_at_any_score() -> None:
    alike = [Member(i, "seed\na\n", 5.0 - i) for i in range(3)]
    longer = Member(7, "seed\na\nb\nc\nd\n", -9.0)
    assert sorted(member.candidate for member in elites_of([*alike, longer], "seed", 4).values()) == [0, 7]


@pytest.mark.parametrize("fitness", BOTH)
@given(history=histories, seed=st.integers())
def test_every_rule_gives_a_member_and_the_tournament_is_the_default(
    fitness: Fitness, history: list[tuple[int, float | None]], seed: int
) -> None:
    island, _ = tried(history, fitness, 100)
    for way in PARENT_RULES:
        search = SearchConfig.model_validate({"parents": way})
        assert parent_of(island, search, Random(seed)) in island.members
    expected = choose_parent(island.members, Random(seed), size=2, pool=4)
    assert parent_of(island, SearchConfig(), Random(seed)) == expected


def test_without_exploration_puct_chooses_the_highest_reached_score() -> None:
    island, _ = tried([(0, 1.0), (0, 2.0), (1, None)], UP, 100)
    reached = {
        member.candidate: max(member.score, visits.best_child or -math.inf)
        for member in island.members
        if (visits := island.visits.get(member.candidate)) is not None
    }
    chosen = choose_puct(island.members, island.visits, 0.0)
    assert not any(UP.better(other, reached[chosen.candidate]) for other in reached.values())
