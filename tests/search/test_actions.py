"""Momentum, going back and crossing over: the pure decisions, in both directions of optimisation."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.events import IdeaTaken, IslandActed
from pace_async.fitness import fitness_of
from pace_async.search.actions import (
    Odds,
    admitted,
    after_action,
    decide,
    is_due,
    news,
    odds,
    partner,
    progress_of,
    reason_in_words,
    take_in,
)
from pace_async.search.ideas import interleaved, merge_pools
from pace_async.search.islands import (
    SNAPSHOTS_KEPT,
    after_advice,
    after_evaluation,
    choose_snapshot,
    first_island,
    gain,
    next_momentum,
    remembered,
    snapshot_of,
)
from pace_async.search.state import Course, Idea, Island, Member, Neighbours, Rules, Snapshot, Trial, VisiblePool
from tests.support.fitness import DOWN, UP

SEED = Member(0, "seed", 0.0)
RULES = Rules(UP, 5, 100, True, "both", decay=0.85, trigger=0.001, interval=15, stay=5)

scores = st.floats(-5, 5).map(lambda score: round(score, 6))
shares = st.floats(0, 1)
pools = st.lists(st.text(alphabet="abc", max_size=2), max_size=7).map(
    lambda texts: tuple(Idea(number, text) for number, text in enumerate(texts, start=1))
)


def same(draw: Random) -> Random:
    """One generator for all that a search draws."""
    return draw


def rolled(island: Island, score: float | None, rules: Rules = RULES, *, lease: int = 0) -> Island:
    """One more rollout on an island, by default under the next free number."""
    lease = lease or island.course.updates + 1
    member = None if score is None else Member(lease, f"program {lease}", score)
    return after_evaluation(island, parent=0, idea=None, trial=None, member=member, rules=rules)


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_worked_example_of_momentum_holds_in_both_directions(direction: str) -> None:
    start = 2.0 if direction == "maximize" else 3.0
    found = [2.5, 2.4, 2.75] if direction == "maximize" else [2.5, 2.6, 2.25]
    rules = replace(RULES, fitness=fitness_of(direction, 2.0, 3.0))
    island, told = first_island(1, replace(SEED, score=start)), list[tuple[float, float]]()
    for score in found:
        island = rolled(island, score, rules)
        told.append((island.course.momentum, progress_of(island, rules)))
    assert told == [
        (pytest.approx(0.075), pytest.approx(0.5)),
        (pytest.approx(0.06375), pytest.approx(0.5)),
        (pytest.approx(0.1291875), pytest.approx(0.75)),
    ]
    assert [snapshot.best.score for snapshot in island.course.history] == [start, found[0], found[2]]


@given(old=scores, new=scores, goal=scores, start=scores)
def test_gain_and_progress_are_shares_and_do_not_know_the_direction(
    old: float, new: float, goal: float, start: float
) -> None:
    gains, ways = set[float](), set[float]()
    for fitness in (fitness_of("maximize", goal - 1, goal), fitness_of("minimize", -goal, 1 - goal)):
        before, after, first = map(fitness.merit, (old, new, start))
        gains.add(gain(before, after, fitness))
        ways.add(fitness.covered(first, after))
    assert len(gains) == len(ways) == 1
    assert all(0.0 <= share <= 1.0 for share in (*gains, *ways))
    assert (gains == {0.0}) == (new <= old)


@given(values=st.lists(shares, max_size=40), decay=st.floats(0, 0.99))
def test_momentum_stays_a_share_and_fades_without_gain(values: list[float], decay: float) -> None:
    momentum = 0.0
    for value in values:
        momentum = next_momentum(momentum, value, decay)
        assert 0.0 <= momentum <= 1.0 + 1e-12
    assert next_momentum(momentum, 0.0, decay) <= momentum


def test_the_goal_is_the_better_bound() -> None:
    assert (UP.goal, DOWN.goal) == (1.0, 0.0)
    assert (UP.worse_bound, DOWN.worse_bound) == (0.0, 1.0)


def test_an_island_acts_when_momentum_is_gone_and_not_before_sixteen_rollouts() -> None:
    island, due = first_island(1, SEED), list[int]()
    for lease in range(1, 40):
        island = rolled(island, 0.001 if lease == 1 else -1.0)
        if is_due(island.course, RULES):
            due.append(lease)
    assert due == list(range(16, 40))
    lively = rolled(island, 0.9, lease=99)
    assert lively.course.momentum > RULES.trigger
    assert not is_due(lively.course, RULES)
    assert not is_due(replace(island.course, stay=1), RULES)
    assert not is_due(island.course, replace(RULES, backtracking=False))
    eager = replace(RULES, interval=0)
    assert not is_due(rolled(first_island(1, SEED), None).course, eager)
    assert is_due(rolled(rolled(first_island(1, SEED), None), None).course, eager)


def test_the_worked_example_of_the_odds() -> None:
    found = odds(0.6, {2: 0.8, 5: 0.5})
    assert found.backtrack == pytest.approx(0.064)
    assert found.crossover == {2: pytest.approx(0.584), 5: 0.0}
    assert found.backtrack / found.total == pytest.approx(0.0988, abs=1e-4)


@given(own=shares, others=st.dictionaries(st.integers(2, 9), shares))
def test_odds_are_never_negative_and_one_is_always_positive(own: float, others: Mapping[int, float]) -> None:
    found = odds(own, others)
    assert found.total > 0.0
    assert min(found.backtrack, *found.crossover.values(), math.inf) >= 0.0
    assert set(found.crossover) <= set(others)


@given(own=shares, others=st.dictionaries(st.integers(2, 9), shares, min_size=1))
def test_an_island_ahead_of_all_crosses_only_with_the_best_other(own: float, others: Mapping[int, float]) -> None:
    found = odds(own, others)
    crossed = {number for number, weight in found.crossover.items() if weight > 0.0}
    best = {number for number, there in others.items() if there == max(others.values())}
    if own >= max(others.values()):
        assert len(crossed) <= 1
        assert crossed <= best
    assert crossed <= {number for number, there in others.items() if there > own} | best


def test_an_island_that_is_alone_goes_back_and_two_that_are_at_the_goal_cross() -> None:
    assert partner(odds(0.3, {}), Random(1)) is None
    assert partner(Odds(1.0, {2: 0.0}), Random(1)) is None
    assert partner(odds(1.0, {2: 1.0}), Random(1)) == 2


def test_one_of_the_two_actions_can_be_left_out() -> None:
    ahead, behind = odds(0.6, {2: 0.0}), odds(0.2, {2: 0.9})
    assert admitted(behind, "both") is behind
    assert admitted(behind, "backtrack") == Odds(1.0, {})
    assert admitted(behind, "crossover") == Odds(0.0, behind.crossover)
    assert partner(Odds(0.0, behind.crossover), Random(1)) == 2
    assert admitted(ahead, "crossover") is None
    assert admitted(odds(0.3, {}), "crossover") is None


def test_actions_are_drawn_in_proportion() -> None:
    chances = Odds(1.0, {2: 0.0, 3: 2.0, 4: 1.0})
    drawn = [partner(chances, Random(seed)) for seed in range(4000)]
    for number, share in ((None, 0.25), (2, 0.0), (3, 0.5), (4, 0.25)):
        assert drawn.count(number) / 4000 == pytest.approx(share, abs=0.03)


def test_snapshots_are_drawn_by_their_age() -> None:
    drawn = [choose_snapshot(4, Random(seed)) for seed in range(4000)]
    weights = [(k + 1) ** -1.5 for k in range(4)]
    for k, weight in enumerate(weights):
        assert drawn.count(k) / 4000 == pytest.approx(weight / sum(weights), abs=0.03)


@given(length=st.integers(1, 500))
def test_a_long_history_stays_short_and_keeps_its_ends(length: int) -> None:
    history: tuple[Snapshot, ...] = ()
    for number in range(length):
        history = remembered(history, snapshot_of(Member(number, "", 0.0), ()))
    numbers = [snapshot.best.candidate for snapshot in history]
    assert len(history) <= SNAPSHOTS_KEPT
    assert numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == (0, length - 1)
    assert max((after - before for before, after in pairwise(numbers)), default=0) <= 1 + 3 * length / SNAPSHOTS_KEPT


@pytest.mark.fault("Size", "the programs and the history of an island take a bounded number of bytes")
@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=90), room=st.integers(1, 400))
def test_a_history_takes_no_more_bytes_than_it_has_room_for(sizes: list[int], room: int) -> None:
    """Programs and the texts of ideas and trials count. Its two ends stay, however large they are."""
    history: tuple[Snapshot, ...] = ()
    for number, size in enumerate(sizes):
        ideas = (Idea(1, "i" * size, (Trial(number, "t" * size, "ok", 0.0),)),)
        history = remembered(history, snapshot_of(Member(number, "p" * size, 0.0), ideas), room)
    numbers = [snapshot.best.candidate for snapshot in history]
    assert numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == (0, len(sizes) - 1)
    assert len(history) <= 2 or sum(3 * sizes[number] for number in numbers) <= room


@given(older=st.lists(st.integers()), newer=st.lists(st.integers()))
def test_interleaving_keeps_everything_in_its_order(older: list[int], newer: list[int]) -> None:
    marked = interleaved([(0, one) for one in older], [(1, one) for one in newer])
    assert [one for mark, one in marked if mark == 0] == older
    assert [one for mark, one in marked if mark == 1] == newer


@given(own=pools, arriving=pools, cap=st.integers(1, 6), following=st.integers(10, 20))
def test_ideas_taken_in_are_new_numbered_on_and_within_the_cap(
    own: tuple[Idea, ...], arriving: tuple[Idea, ...], cap: int, following: int
) -> None:
    pool, taken, after = take_in(own, news(own, arriving), following, cap)
    again = tuple(idea for idea in arriving if idea.number in {one.origin for one in taken})
    assert take_in(own, again, following, cap) == (pool, taken, after)
    assert len(pool) <= cap
    assert [idea.number for idea in taken] == list(range(following, after))
    known = {idea.description for idea in own}
    assert all(idea.description not in known for idea in taken)
    assert {idea.number for idea in pool} <= {idea.number for idea in own} | {idea.number for idea in taken}
    if arriving and arriving[-1].description not in known:
        assert taken[-1].origin == arriving[-1].number


def test_an_idea_arrives_with_its_experiments() -> None:
    trial = Trial(4, "do x", "ok", 1.0)
    pool, taken, _ = take_in((Idea(1, "own"),), (Idea(1, "theirs", (trial,)),), 2, 5)
    assert pool == (Idea(1, "own"), Idea(2, "theirs", (trial,)))
    assert (taken[0].number, taken[0].origin) == (2, 1)


def test_ideas_set_aside_rejoin_the_pool_and_no_experiment_is_lost() -> None:
    before, after = Trial(1, "a", "ok", 1.0), Trial(9, "b", "timeout", None)
    aside = (Idea(1, "one", (before,)), Idea(2, "two"), Idea(3, "three"))
    now = (Idea(4, "four"), Idea(1, "one", (after,)))
    assert merge_pools(aside, now, 5) == (aside[1], now[0], aside[2], Idea(1, "one", (before, after)))
    assert [idea.number for idea in merge_pools(aside, now, 2)] == [3, 1]


def climbed(*found: float | None, rules: Rules = RULES) -> Island:
    """An island whose rollouts had these scores, with one more idea before each."""
    island = first_island(1, SEED)
    for number, score in enumerate(found, start=1):
        ideas = (*island.ideas, Idea(number, f"idea {number}"))[-rules.ideas_kept :]
        island = rolled(after_advice(island, ideas, number + 1), score, rules)
    return island


def the_action(island: Island, elites: Mapping[int, Member], draw: int, rules: Rules = RULES) -> IslandActed | None:
    shown = {number: VisiblePool(elite.candidate, (Idea(7, f"of {number}"),)) for number, elite in elites.items()}
    return decide(island, Neighbours(elites, shown), rules, lease=99, draw=partial(Random, draw), at=0.0)


def test_going_back_restores_an_older_best_and_its_ideas_and_the_later_ideas_return() -> None:
    island = climbed(0.3, 0.6, *[None] * 40)
    acted = next(
        found for draw in range(100) if (found := the_action(island, {}, draw)) is not None and found.snapshot == 1
    )
    assert (acted.action, acted.candidate, acted.stay, acted.rival) == ("backtrack", 1, 5, None)
    back = after_action(island, acted, (), RULES)
    assert [member.candidate for member in back.members] == [1]
    assert [idea.number for idea in back.ideas] == [1]
    assert progress_of(back, RULES) == pytest.approx(0.3)
    assert the_action(back, {}, 0) is None
    for left in (4, 3, 2, 1, 0):
        assert [idea.number for idea in back.ideas] == [1]
        back = rolled(back, 0.4 if left == 3 else None, lease=100 + left)
        assert back.course.stay == left
    assert [idea.number for idea in back.ideas] == [39, 40, 41, 42, 1]
    assert UP.ranked(back.members)[0].score == 0.4
    assert back.course.history[-1].best.candidate == 103
    assert back.course.acted == acted
    assert "drawn with probability 1.00" in reason_in_words(acted)


@pytest.mark.parametrize("draw", range(20))
def test_an_island_acts_only_as_configured(draw: int) -> None:
    island, other = climbed(0.1, 0.3, *[None] * 40), {2: Member(50, "better", 0.9)}
    only = {name: the_action(island, other, draw, replace(RULES, actions=name)) for name in ("backtrack", "crossover")}
    assert {name: acted and acted.action for name, acted in only.items()} == {name: name for name in only}
    assert the_action(island, {}, draw, replace(RULES, actions="crossover")) is None


def test_an_island_that_is_behind_takes_ideas_and_the_best_program_of_another() -> None:
    island = climbed(0.01, *[None] * 40)
    partners = {2: Member(50, "far", 0.9), 3: Member(60, "seed like", 0.0)}
    acted = the_action(island, partners, 1)
    assert acted is not None
    assert (acted.action, acted.partner, acted.candidate, acted.as_of) == ("crossover", 2, 50, 50)
    assert (acted.progress, acted.rival) == (pytest.approx(0.01), pytest.approx(0.9))
    crossed = after_action(island, acted, (Idea(7, "of 2"),), RULES)
    assert crossed.ideas[-1] == Idea(42, "of 2")
    assert (crossed.next_idea, len(crossed.ideas)) == (43, 5)
    assert crossed.members == island.members
    assert crossed.course.since == 0
    assert the_action(crossed, partners, 1) is None


def test_an_action_that_is_not_this_island_s_is_refused() -> None:
    island = climbed(0.3, 0.6, *[None] * 40)
    acted = the_action(island, {}, 1)
    assert acted is not None
    with pytest.raises(ValueError, match="no snapshot 9"):
        after_action(island, replace(acted, snapshot=9), (), RULES)
    with pytest.raises(ValueError, match="does not hold candidate 77"):
        after_action(island, replace(acted, candidate=77), (), RULES)
    crossed = replace(acted, action="crossover", partner=2, as_of=3, ideas=(IdeaTaken(43, "heard of", 7),))
    with pytest.raises(ValueError, match="island 2 are not those"):
        after_action(island, crossed, (Idea(1, "unheard of"),), RULES)


@given(
    found=st.lists(st.one_of(st.none(), scores), min_size=1, max_size=60),
    seed=st.integers(0, 2**32),
    others=st.dictionaries(st.integers(2, 5), scores),
)
def test_an_island_keeps_its_invariants_under_any_facts(
    found: list[float | None], seed: int, others: dict[int, float]
) -> None:
    """The best only gets better between actions, history is of improvements, sizes are bounded, and the mirror image
    of a search is the same search in the other direction."""
    told: list[tuple[object, ...]] = []
    for fitness in (fitness_of("maximize", -6.0, 6.0), fitness_of("minimize", -6.0, 6.0)):
        rules = replace(RULES, fitness=fitness, interval=2, trigger=0.05)
        island = first_island(1, replace(SEED, score=fitness.merit(-5.0)))
        elites = {n: Member(1000 + n, f"elite {n}", fitness.merit(score)) for n, score in others.items()}
        draw, actions = Random(seed), list[tuple[str, int]]()
        for lease, score in enumerate(found, start=1):
            shown = {number: VisiblePool(1, (Idea(1, f"of {number}"),)) for number in elites}
            acted = decide(island, Neighbours(elites, shown), rules, lease=lease, draw=partial(same, draw), at=0.0)
            if acted is not None:
                arriving = shown[acted.partner].ideas if acted.partner is not None else ()
                island = after_action(island, acted, arriving, rules)
                actions.append((acted.action, acted.candidate))
            before = fitness.ranked(island.members)[0].score
            island = rolled(island, None if score is None else fitness.merit(score), rules, lease=lease)
            after = fitness.ranked(island.members)[0].score
            assert fitness.merit(after) >= fitness.merit(before)
            assert len(island.ideas) <= rules.ideas_kept
            assert 0 <= island.course.stay <= rules.stay
            assert bool(island.course.stay) >= bool(island.course.aside)
        told.append((tuple(actions), [member.candidate for member in island.members], island.course.momentum))
    assert told[0][:2] == told[1][:2]
    assert told[0][2] == pytest.approx(told[1][2])


def test_an_island_without_a_new_best_has_only_its_beginning_as_history() -> None:
    assert first_island(4, SEED).course == Course(history=(snapshot_of(SEED, ()),))
