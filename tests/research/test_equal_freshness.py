"""Equal freshness: which runs the comparison asks for, and what it says of them."""

from pathlib import Path

import numpy as np
import pytest

from research.trials.curves import differences, scores
from research.trials.equal_freshness import ARMS, verdict
from research.trials.plan import (
    CLOCK,
    FAMILIES,
    FRESHNESS,
    REAL,
    confirmatory,
    equal_freshness_arguments,
    real_model_arguments,
)

SEEDS = range(FRESHNESS.first, FRESHNESS.first + FRESHNESS.seeds)


def rising(gain: float) -> np.ndarray:
    """A run each of whose candidates is better by `gain`."""
    return gain * np.arange(1, FRESHNESS.candidates + 1)


def test_its_seeds_are_those_of_no_other_trial() -> None:
    taken = {seed for family in FAMILIES.values() for _, _, seed in confirmatory(family)}
    taken |= set(range(CLOCK.first, CLOCK.first + CLOCK.seeds))
    assert not set(SEEDS) & taken


def test_the_arms_differ_in_the_learner_alone() -> None:
    theirs, ours = (list(equal_freshness_arguments(arm, Path("task"), 7000)) for arm in ARMS)
    own = [word for word in ours if word not in theirs]
    assert own[0] == "pace"
    assert all(word.startswith(("--set=learner.", "--set=reward.")) for word in own[1:])
    assert [word for word in theirs if word not in ours] == ["none"]


@pytest.mark.parametrize(("gains", "said"), [((0.001, 0.002), "reproduced"), ((0.002, 0.001), "contradicted")])
def test_the_verdict_follows_from_the_last_candidates(gains: tuple[float, float], said: str) -> None:
    curves = {
        arm: {seed: rising(gain * (1 + seed % 3 / 100)) for seed in SEEDS}
        for arm, gain in zip(ARMS, gains, strict=True)
    }
    assert said in next(verdict(curves))
    del curves["none"][FRESHNESS.first]
    assert next(verdict(curves)) == f"No verdict: {FRESHNESS.seeds - 1} of {FRESHNESS.seeds} pairs have finished."


def test_tables_pair_the_seeds_and_leave_out_what_has_no_pair() -> None:
    curves = {"none": {1: np.array([1.0, 2.0]), 2: np.array([1.0, 3.0])}, "pace": {2: np.array([1.0, 5.0])}}
    assert list(scores(curves, (1, 2)))[2].startswith("| none | 2 | 1.000 ± 0.000 | 2.500")
    assert list(differences(curves, "none", (2,)))[2:] == ["| pace | 1 | +2.000 (1 pair) |"]


def test_the_arms_of_a_real_model_differ_in_objective_precision_and_rewards() -> None:
    none, pace, bf16, shuffled = (
        set(real_model_arguments(arm, Path("c.yaml"), Path("m"), REAL.first))
        for arm in ("none", "pace", "bf16", "shuffled")
    )
    assert none - pace == {"--objective", "none"}
    assert bf16 - pace == {"--set=learner.precision=bf16"}
    assert shuffled - pace == {"--set=learner.shuffle_rewards=true"}
    assert not pace - shuffled
