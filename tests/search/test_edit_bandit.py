"""The bandit over edits of a catalogue, as a pure function."""

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.search.edit_bandit import (
    PRIOR,
    Arm,
    Tries,
    arm_in,
    arm_of,
    choose_edit,
    edit_text,
    with_try,
)

WORDS = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
EDITS = [(f"{kind}{n} step", option) for kind in ("low", "high") for n in (1, 2, 3) for option in ("a", "b", "c")]


def told(tries: Iterable[tuple[Arm, bool]]) -> dict[Arm, Tries]:
    results: dict[Arm, Tries] = {}
    for arm, gained in tries:
        results = with_try(results, arm, gained=gained)
    return results


def test_an_arm_is_an_option_at_targets_of_one_kind_whatever_the_number_of_the_site() -> None:
    assert arm_of("sensor3 predictor", "lag1") == arm_of("sensor12 predictor", "lag1") == ("sensor predictor", "lag1")
    assert arm_of("sensor3 predictor", "lag1") != arm_of("sensor3 coder", "lag1")
    assert arm_of("pattern2", "hex") == ("pattern2", "hex")  # a mechanism without sites keeps its name


@given(WORDS, WORDS, st.integers(0, 99), WORDS, WORDS)
def test_the_arm_of_an_experiment_is_read_from_its_words(
    kind: str, mechanism: str, number: int, option: str, present: str
) -> None:
    assert arm_in(edit_text(f"{kind}{number} {mechanism}", option, present)) == (f"{kind} {mechanism}", option)
    assert arm_in(edit_text(mechanism, option, present)) == (mechanism, option)


@pytest.mark.parametrize("text", [None, "", "Try a hexagonal start.", "move the points from left to right", "a to b"])
def test_other_experiments_have_no_arm(text: str | None) -> None:
    assert arm_in(text) is None


@given(
    st.lists(st.tuples(st.sampled_from([arm_of(*edit) for edit in EDITS]), st.booleans()), max_size=40), st.randoms()
)
def test_the_choice_does_not_depend_on_the_order_of_the_results(
    tries: list[tuple[Arm, bool]], shuffles: random.Random
) -> None:
    shuffled = shuffles.sample(tries, len(tries))
    assert told(tries) == told(shuffled)
    one, other = (
        choose_edit(EDITS, lambda edit: arm_of(*edit), told(each), random.Random(1)) for each in (tries, shuffled)
    )
    assert one == other


def test_what_gained_at_one_site_is_tried_at_every_site_of_its_kind() -> None:
    results = told([(arm_of("low1 step", "b"), True)] * 12)
    draw = random.Random(3)
    chosen = Counter(choose_edit(EDITS, lambda edit: arm_of(*edit), results, draw) for _ in range(300))
    assert sum(chosen[f"low{n} step", "b"] for n in (1, 2, 3)) > 200
    assert min(chosen[f"low{n} step", "b"] for n in (1, 2, 3)) > 40


def test_what_never_gained_is_tried_less_than_what_was_never_tried() -> None:
    results = told([(arm_of("high1 step", option), False) for option in "ab" for _ in range(20)])
    draw = random.Random(5)
    chosen = Counter(arm_of(*choose_edit(EDITS, lambda edit: arm_of(*edit), results, draw)) for _ in range(400))
    assert chosen["high step", "a"] + chosen["high step", "b"] < 40 < chosen["high step", "c"]


def test_a_search_of_its_choices_finds_the_arm_that_gains_most() -> None:
    rates = {"a": 0.05, "b": 0.6, "c": 0.05}
    draw, results, chosen = random.Random(7), dict[Arm, Tries](), list[Arm]()
    for _ in range(300):
        arm = arm_of(*choose_edit(EDITS, lambda edit: arm_of(*edit), results, draw))
        chosen.append(arm)
        results = with_try(results, arm, gained=arm[0] == "low step" and draw.random() < rates[arm[1]])
    assert chosen[150:].count(("low step", "b")) > 120
    assert sum(each.gains + each.others for each in results.values()) == 300


def test_the_prior_expects_one_edit_in_ten_to_gain() -> None:
    assert PRIOR[0] / sum(PRIOR) == pytest.approx(0.1)
