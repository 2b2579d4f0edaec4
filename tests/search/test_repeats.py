"""Scores that rest on several evaluations, and the parents that are chosen by them."""

import math
from random import Random

import pytest

from pace_async.config import SearchConfig
from pace_async.fitness import fitness_of
from pace_async.search.parents import choose_migrant, parent_of
from pace_async.search.repeats import Spread, bounded
from pace_async.search.state import Island, Member
from tests.support.fitness import UP

DOWN = fitness_of("minimize", 0.0, 1.0)


def member(candidate: int, score: float) -> Member:
    return Member(candidate, f"x = {candidate}", score)


LUCKY, SURE, SEED = member(3, 0.8), member(2, 0.75), member(0, 0.2)
REPEATED = {2: (0.7, 0.75, 0.75, 0.8), 9: (0.0, 1.0)}


def test_a_mean_has_the_standard_error_of_its_evaluations() -> None:
    assert Spread.of(()) == Spread.of((0.5,)) == Spread(1, None)
    assert Spread.of((1.0, 3.0)) == Spread(2, 1.0)


def test_a_single_evaluation_counts_for_less_than_the_mean_of_several() -> None:
    sigma = math.sqrt(0.005 / 3)
    found = bounded([LUCKY, SURE, SEED], {**REPEATED, 2: (0.6, 0.7, 0.8, 0.9)}, UP)
    assert [each.candidate for each in found] == [2, 3, 0]
    close = bounded([LUCKY, SURE, SEED], REPEATED, UP)
    assert [(each.candidate, each.score) for each in close] == [
        (3, pytest.approx(0.8 - sigma)),
        (2, pytest.approx(0.75 - sigma / 2)),
        (0, pytest.approx(0.2 - sigma)),
    ]
    lower = bounded([member(3, 0.2), member(2, 0.21)], {2: (0.1, 0.3)}, DOWN)
    assert [each.candidate for each in lower] == [2, 3] and lower[0].score > 0.21


def test_without_evaluations_that_differ_the_scores_decide() -> None:
    for repeated in ({}, {2: (0.75,)}, {2: (0.75, 0.75)}, {9: (0.0, 1.0)}):
        assert bounded([LUCKY, SURE, SEED], repeated, UP) == (LUCKY, SURE, SEED)


def test_parents_of_an_island_and_of_others_are_chosen_by_the_bound() -> None:
    wide = {2: (0.6, 0.7, 0.8, 0.9)}
    island, search = Island(1, (LUCKY, SURE, SEED)), SearchConfig(tournament_size=200, tournament_pool=3)
    assert parent_of(island, search, Random(0), UP) == LUCKY
    assert parent_of(island, search, Random(0), UP, repeated=wide) == SURE
    elites, own = {2: SURE, 3: LUCKY}, Island(1, (SEED,))
    assert choose_migrant(elites, own, UP, Random(0), probability=1.0, size=3) == LUCKY
    assert choose_migrant(elites, own, UP, Random(0), probability=1.0, size=3, repeated=wide) == SURE
