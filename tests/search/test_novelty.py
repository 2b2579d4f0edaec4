"""Which ideas say nearly the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.search.novelty import alike, closest, distinct
from pace_async.search.results import KnownIdea

CACHES = (
    "(refine) Cache cheapest insertions per route and customer, since routes are immutable.",
    "Cache for each immutable route the cheapest insertion per customer.",
    "(explore) Cache the cheapest insertion of a customer in each route, since routes are immutable.",
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        CACHES[:2],
        CACHES[1:],
        (
            "Forecast by a running average of windows (recent about 0.4), so that noise of one window counts less.",
            "Forecast by a running average over calls (recent about 0.4) so that noise of a single window counts less.",
        ),
        (
            "(refine) kernel of pairs exp(additive / usual) - 1 - additive / usual instead of the square.",
            "(explore) pairs as exp(additive / usual) - 1 - additive / usual.",
        ),
    ],
)
def test_other_words_for_the_same_are_alike(one: str, other: str) -> None:
    assert alike(one, other) and alike(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Set layout to hex.", "Set layout to grid."),
        ("Deal the slots of layer 4 in snake order first.", "Deal the slots of layer 5 in snake order first."),
        ('Give replicas by the rule "hottest" everywhere.', 'Give replicas by the rule "share" everywhere.'),
        ("Change the predictor of column3 to lag1 before all.", "Change the predictor of column4 to lag1 before all."),
        ("Cache the cheapest insertions.", "Collect the routes of accepted solutions in a pool."),
    ],
)
def test_another_value_or_another_thing_is_not_alike(one: str, other: str) -> None:
    assert not alike(one, other) and not alike(other, one)


def test_an_idea_is_close_to_what_was_tried_in_many_of_its_words_with_all_its_numbers() -> None:
    idea = "(explore) the Gaussian process as the latent value below a sigmoid, with the kernel of 3, for saturation."
    joined = (
        "(combine) candidate 3's kernel as the prior of candidate 2's latent value: score = sigmoid(z), z ~ GP(0, k)"
    )
    other = "(refine) choose the penalty of singles and the stiffness of pairs in each assay by held-out doubles"
    assert closest(idea, [(5, other), (8, joined), (9, joined)]) == 8
    assert closest(idea, [(8, joined.replace("3's", "4's"))]) is None
    assert closest(idea, [(5, other)]) is None and closest(idea, []) is None
    assert closest("Other.", [(5, "Other.")]) is None, "of few words each makes a difference"


def test_the_oldest_is_listed_at_the_place_of_the_first_with_those_that_are_like_it() -> None:
    ideas = [
        KnownIdea(number, text, number, number) for number, text in ((9, CACHES[2]), (4, "Other."), (2, CACHES[0]))
    ]
    listed = distinct([*ideas, KnownIdea(5, CACHES[1], 5, 5)])
    assert [(idea.number, [each.number for each in like]) for idea, like in listed.items()] == [(2, [5, 9]), (4, [])]


@given(st.lists(st.sampled_from([*CACHES, "Set layout to hex.", "Other."]), max_size=12))
def test_every_idea_is_listed_once_or_like_one_that_is(texts: list[str]) -> None:
    ideas = [KnownIdea(number, text, 0, 0) for number, text in enumerate(texts)]
    listed = distinct(ideas)
    everyone = [idea for first, like in listed.items() for idea in (first, *like)]
    assert sorted(everyone, key=lambda idea: idea.number) == ideas
    assert not any(alike(one.text, other.text) for one in listed for other in listed if one is not other)
