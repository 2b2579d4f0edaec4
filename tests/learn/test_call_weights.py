"""Weights of whole calls: the product and the geometric mean of their tokens' ratios, exactly.

The policies are tables: a token of three, and a second one whose distribution depends on the first. All nine answers
are enumerated, so expectations are sums and no sample is drawn.
"""

import math
from itertools import product

import numpy as np
import pytest
import torch

from pace_async.learn.correction import LARGEST, Correction, weigh

VOCAB = 3
ANSWERS = list(product(range(VOCAB), repeat=2))
REWARDS = {answer: float(1 + 2 * answer[0] - answer[1] ** 2) for answer in ANSWERS}


def policy(seed: int, shift: float) -> torch.Tensor:
    """Logits (1 + VOCAB, VOCAB): of the first token, and of the second after each first one. `shift` is the size of the
    difference from seed 0's."""
    base = torch.randn(1 + VOCAB, VOCAB, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    other = torch.randn(1 + VOCAB, VOCAB, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return base + shift * other


def logprobs(logits: torch.Tensor, answer: tuple[int, ...]) -> torch.Tensor:
    first, second = answer
    table = logits.log_softmax(-1)
    return torch.stack([table[0, first], table[1 + first, second]])


def true_gradient(logits: torch.Tensor) -> torch.Tensor:
    """Of the expected reward of the policy."""
    given = logits.clone().requires_grad_()
    terms = [logprobs(given, answer).sum().exp() * REWARDS[answer] for answer in ANSWERS]
    return torch.autograd.grad(torch.stack(terms).sum(), given)[0]


def expected_gradient(logits: torch.Tensor, sampler: torch.Tensor, rule: Correction) -> torch.Tensor:
    """The mean over all answers of the sampler of what a step adds up: weight, reward and score of each token."""
    given = logits.clone().requires_grad_()
    terms: list[torch.Tensor] = []
    for answer in ANSWERS:
        now, then = logprobs(given, answer), logprobs(sampler, answer)
        log_ratio = (now.detach() - then).numpy()[None, :]
        weights = weigh(log_ratio, np.ones((1, 2), bool), np.zeros((1, 2), int), rule).weights_BT[0]
        terms.append(then.sum().exp() * REWARDS[answer] * (torch.tensor(weights) * now).sum())
    return torch.autograd.grad(torch.stack(terms).sum(), given)[0]


@pytest.mark.parametrize("shift", [0.1, 0.5, 1.5])
def test_without_truncation_only_the_product_over_the_call_gives_an_unbiased_gradient(shift: float) -> None:
    now, sampler = policy(0, 0.0), policy(1, shift)
    wanted = true_gradient(now)
    found = expected_gradient(now, sampler, Correction("sequence", cap=None))
    torch.testing.assert_close(found, wanted, atol=1e-12, rtol=1e-10)
    for kind in ("decoupled", "geometric"):
        biased = expected_gradient(now, sampler, Correction(kind, cap=None))
        assert torch.dist(biased, wanted).item() > 0.01 * shift * torch.dist(wanted, torch.zeros_like(wanted)).item()


@pytest.mark.parametrize("kind", ["sequence", "geometric", "decoupled"])
def test_on_policy_every_weight_is_1_and_the_gradient_is_the_policys_own(kind: str) -> None:
    now = policy(0, 0.0)
    torch.testing.assert_close(expected_gradient(now, now, Correction(kind)), true_gradient(now), atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("kind", "ratios", "ages", "cap", "weight", "truncated"),
    [
        ("sequence", [2.0, 1.5], [0, 0], 4.0, 3.0, False),
        ("sequence", [2.0, 1.5], [0, 0], 2.0, 2.0, True),
        ("sequence", [2.0, 1.5], [0, 1], 2.0, 1.5, True),  # 1 + 1 * 0.5: the oldest token's cap
        ("sequence", [2.0, 0.5], [3, 3], 2.0, 1.0, False),  # each token beyond its cap, and the call not
        ("sequence", [0.5, 0.4], [0, 0], 2.0, 0.2, False),
        ("geometric", [2.0, 4.5], [0, 0], 4.0, 3.0, False),  # the root of 9
        ("geometric", [2.0, 4.5], [0, 0], 2.0, 2.0, True),
        ("geometric", [2.0, 4.5], [2, 0], 2.0, 1.25, True),
        ("geometric", [0.5, 0.08], [0, 0], 2.0, 0.2, False),
        ("geometric", [8.0, 1.0, 1.0], [0, 0, 0], None, 2.0, False),
    ],
)
def test_the_truncation_of_a_call_is_that_of_its_oldest_token(
    kind: str, ratios: list[float], ages: list[int], cap: float | None, weight: float, *, truncated: bool
) -> None:
    padding = [7.0]  # an invalid token counts in no product
    log_ratio = np.array([[*map(math.log, ratios), *padding]])
    valid = np.array([[*([True] * len(ratios)), False]])
    found = weigh(log_ratio, valid, np.array([[*ages, 9]]), Correction(kind, cap=cap))
    assert found.weights_BT[0] == pytest.approx([weight] * len(ratios) + [0.0])
    assert found.truncated_BT[0].tolist() == [truncated] * len(ratios) + [False]


@pytest.mark.parametrize("kind", ["sequence", "geometric"])
def test_a_call_with_a_broken_token_has_no_weight_and_a_long_one_a_finite_weight(kind: str) -> None:
    log_ratio = np.array([[0.1, math.nan, 0.1], [29.0, 29.0, 29.0]])
    rule = Correction(kind, cap=None)
    found = weigh(log_ratio, np.ones((2, 3), bool), np.zeros((2, 3), int), rule)
    assert not found.weights_BT[0].any()
    assert found.weights_BT[1] == pytest.approx(math.exp(LARGEST if kind == "sequence" else 29.0))
    assert found.broken_BT.sum() == 1
