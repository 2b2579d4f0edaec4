"""The bandit over implementers, as a pure function, and what counts as which kind of experiment."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.events import ImplementerChosen, Kind
from pace_async.search.bandit import WINDOW, Arm, Result, choose_arm, kind_of, latest
from pace_async.search.draws import generator
from pace_async.staleness.gate import Lease
from pace_async.state.apply import result_of
from pace_async.state.run_state import OpenRollout
from tests.support.population_facts import evaluated

MODELS = ("a", "b")


def results(model: str, kind: Kind, gains: int, of: int, usd: float, first: int = 1) -> list[Result]:
    return [Result(first + number, kind, model, number < gains, usd) for number in range(of)]


def play(
    rates: Mapping[tuple[str, Kind], float], usd: Mapping[str, float], rounds: int, seed: int, cost_weight: float = 1.0
) -> list[tuple[Kind, str]]:
    """The choices of a search in which a model gains at a fixed rate with each kind."""
    kinds: list[Kind] = sorted({kind for _, kind in rates})
    known: list[Result] = []
    for lease in range(1, rounds + 1):
        kind = kinds[lease % len(kinds)]
        model = choose_arm(MODELS, known, kind, generator(seed, lease, "bandit"), cost_weight).model
        gained = generator(seed, lease, "gain").random() < rates[model, kind]
        known.append(Result(lease, kind, model, gained, usd[model]))
    return [(result.kind, result.model) for result in known]


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_the_better_of_two_models_for_each_kind(seed: int) -> None:
    rates: dict[tuple[str, Kind], float] = {
        ("a", "tuning"): 0.5,
        ("b", "tuning"): 0.1,
        ("a", "invention"): 0.1,
        ("b", "invention"): 0.5,
    }
    late = Counter(play(rates, {"a": 0.01, "b": 0.01}, 300, seed)[100:])
    assert late["tuning", "a"] > 3 * late["tuning", "b"]
    assert late["invention", "b"] > 3 * late["invention", "a"]


@pytest.mark.parametrize("seed", range(5))
def test_of_two_equal_models_it_prefers_the_cheaper_unless_cost_is_ignored(seed: int) -> None:
    rates: dict[tuple[str, Kind], float] = {("a", "tuning"): 0.3, ("b", "tuning"): 0.3}
    usd = {"a": 0.01, "b": 0.04}
    late = Counter(play(rates, usd, 300, seed)[100:])
    assert late["tuning", "a"] > 0.75 * 200
    heedless = Counter(play(rates, usd, 300, seed, cost_weight=0.0)[100:])
    assert heedless["tuning", "a"] < late["tuning", "a"]


def test_an_expensive_model_with_more_gain_per_cost_is_chosen() -> None:
    known = [*results("a", "tuning", 2, 50, 0.01), *results("b", "tuning", 40, 50, 0.04, first=51)]
    chosen = Counter(choose_arm(MODELS, known, "tuning", random.Random(seed), 1.0).model for seed in range(200))
    assert chosen["b"] > 190


def test_both_models_are_explored_at_first_and_none_is_dropped() -> None:
    first = Counter(choose_arm(MODELS, [], "tuning", random.Random(seed), 1.0).model for seed in range(200))
    assert min(first["a"], first["b"]) > 60
    unlucky = results("a", "tuning", 0, 4, 0.01) + results("b", "tuning", 2, 4, 0.01, first=5)
    later = Counter(choose_arm(MODELS, unlucky, "tuning", random.Random(seed), 1.0).model for seed in range(400))
    assert later["a"] > 10


def test_a_free_model_is_not_infinitely_good() -> None:
    known = [*results("a", "tuning", 0, 90, 0.0), *results("b", "tuning", 45, 90, 0.02, first=91)]
    chosen = Counter(choose_arm(MODELS, known, "tuning", random.Random(seed), 1.0).model for seed in range(200))
    assert chosen["b"] > 150


def test_a_models_record_in_other_kinds_is_a_weak_prior() -> None:
    known = [*results("a", "tuning", 30, 40, 0.01), *results("b", "tuning", 2, 40, 0.01, first=41)]
    chosen = Counter(choose_arm(MODELS, known, "invention", random.Random(seed), 1.0).model for seed in range(400))
    assert 240 < chosen["a"] < 395


def test_the_worked_example() -> None:
    known = [*results("a", "tuning", 6, 10, 0.01), *results("b", "tuning", 6, 10, 0.03, first=11)]
    found: dict[str, Arm] = {}
    for seed in range(200):
        arm = choose_arm(MODELS, known, "tuning", random.Random(seed), 1.0)
        found[arm.model] = arm
    assert found["a"].usd == pytest.approx(0.0109, abs=1e-4)
    assert found["b"].usd == pytest.approx(0.0291, abs=1e-4)


RESULTS = st.lists(
    st.builds(
        Result,
        lease=st.integers(1, 10**6),
        kind=st.sampled_from(["tuning", "invention", "refinement"]),
        model=st.sampled_from(["a", "b", "gone"]),
        gained=st.booleans(),
        usd=st.floats(0, 10),
    ),
    max_size=30,
    unique_by=lambda result: result.lease,
)


@given(known=RESULTS, order=st.randoms(use_true_random=False), seed=st.integers(0, 999), weight=st.floats(0, 1))
def test_the_same_results_in_any_order_make_the_same_choice(
    known: list[Result], order: random.Random, seed: int, weight: float
) -> None:
    shuffled = order.sample(known, len(known))
    one = choose_arm(MODELS, known, "tuning", random.Random(seed), weight)
    assert one == choose_arm(MODELS, shuffled, "tuning", random.Random(seed), weight)
    assert one.model in MODELS and 0.0 <= one.rate <= 1.0 and one.usd >= 0.0


def test_the_latest_results_count() -> None:
    old = results("a", "tuning", 0, WINDOW, 0.01)
    new = results("a", "tuning", WINDOW, WINDOW, 0.01, first=WINDOW + 1)
    assert latest([*new, *old]) == tuple(new)


def test_a_rollout_that_another_model_took_over_does_not_count_for_the_chosen_one() -> None:
    chosen = ImplementerChosen(7, "tuning", "a", 0.5, 0.01, 1.0)
    gained = replace(evaluated(7), gained=True)

    def learned(chosen: ImplementerChosen | None, paid: dict[str, float]) -> Result | None:
        return result_of(OpenRollout(Lease(3, 7), 1, chosen=chosen, paid=paid), gained)

    assert learned(chosen, {"a": 0.02}) == Result(7, "tuning", "a", True, 0.02)
    assert learned(chosen, {}) == Result(7, "tuning", "a", True, 0.0)
    assert learned(chosen, {"a": 0.0, "b": 0.02}) is None
    assert learned(None, {"a": 0.02}) is None


@pytest.mark.parametrize(
    ("experiment", "trials", "kind"),
    [
        ('layout to "rings" from "spiral".', 0, "tuning"),
        ("jitter to 0.01 from 0.03.", 3, "tuning"),
        ("Set `cooling` to `none`.", 0, "tuning"),
        ("Replace the greedy step by simulated annealing.", 0, "invention"),
        ("Restart the annealing when it stalls.", 2, "refinement"),
        (
            "Compute the Voronoi cells of the centres, move each centre to the middle of its cell, and do so 50 times "
            "before the radii are grown.",
            0,
            "invention",
        ),
        ("Use the A2 heuristic", 1, "refinement"),
        ("", 0, "invention"),
    ],
)
def test_kinds_of_experiments(experiment: str, trials: int, kind: Kind) -> None:
    assert kind_of(experiment, trials) == kind
