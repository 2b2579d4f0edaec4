"""PKPO's statement, exactly: its weights give the gradient of the expected best of k rewards.

The policy is a table of three actions. All groups of four are enumerated, so both sides are sums."""

import math
from itertools import combinations, product

import numpy as np
import pytest

from pace_async.objectives.maxk import sloo

REWARDS = (0.3, 2.0, 0.9)
LOGITS = np.array([0.4, -0.7, 0.1])
POLICY = np.exp(LOGITS) / np.exp(LOGITS).sum()
SIZE = 4


def score_of(action: int) -> np.ndarray:
    """Gradient of the action's log probability by the logits."""
    return np.eye(len(POLICY))[action] - POLICY


def chance(actions: tuple[int, ...]) -> float:
    return math.prod(float(POLICY[action]) for action in actions)


def true_gradient(k: int) -> np.ndarray:
    """Of the expected best of k rewards, by the logits."""
    total = np.zeros(len(POLICY))
    for group in product(range(len(POLICY)), repeat=k):
        best = max(REWARDS[action] for action in group)
        total += chance(group) * best * np.array([score_of(action) for action in group]).sum(axis=0)
    return total


def plain_weights(rewards: np.ndarray, k: int) -> np.ndarray:
    """The sum of the best scores over the subsets of size k that hold i, over C(N, k)."""
    weights = np.zeros(len(rewards))
    for subset in combinations(range(len(rewards)), k):
        weights[list(subset)] += rewards[list(subset)].max()
    return weights / math.comb(len(rewards), k)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_both_weights_give_the_gradient_of_the_expected_best_of_k(k: int) -> None:
    plain, leaving_one_out = np.zeros(len(POLICY)), np.zeros(len(POLICY))
    for group in product(range(len(POLICY)), repeat=SIZE):
        rewards = np.array([REWARDS[action] for action in group])
        scores = np.array([score_of(action) for action in group])
        plain += chance(group) * plain_weights(rewards, k) @ scores
        leaving_one_out += chance(group) * sloo(rewards, k) @ scores
    assert plain == pytest.approx(true_gradient(k), abs=1e-12)
    assert leaving_one_out == pytest.approx(true_gradient(k), abs=1e-12)
    assert np.linalg.norm(true_gradient(k)) > 0.01
