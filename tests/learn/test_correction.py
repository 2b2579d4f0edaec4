"""Weights of tokens that another policy sampled: properties by the thousand, and TRL's loss with them by hand."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from pace_async.learn.correction import Correction, weigh
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import load_trainer
from pace_async.registry.corrections import CORRECTIONS
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from tests.support.learn_toys import gradient_of, random_group

CorrectionKind = Literal["behaviour", "decoupled", "none"]
KINDS: tuple[CorrectionKind, ...] = get_args(CorrectionKind)


def by_hand(log_ratios: list[float], ages: list[int], rule: Correction) -> list[float]:
    """The weights of one call's tokens, from their definition, one token at a time."""
    ratios = [math.exp(value) for value in log_ratios]
    weights: list[float] = []
    for ratio, age in zip(ratios, ages, strict=True):
        cap = math.inf if rule.cap is None else 1 + (rule.cap - 1) * rule.age_cap**age
        weights.append({"behaviour": min(1.0, cap / ratio), "decoupled": min(ratio, cap), "none": 1.0}[rule.kind])
    return weights


SHAPES = st.builds(
    Correction,
    kind=st.sampled_from(list(CORRECTIONS)),
    cap=st.one_of(st.none(), st.floats(1, 10)),
    age_cap=st.floats(0, 1),
)
rules = SHAPES.filter(lambda rule: rule.kind in KINDS)
number = st.one_of(st.floats(-3, 3), st.sampled_from([1000.0, -1000.0, math.inf, -math.inf, math.nan, 29.9, 30.1, 0.0]))


@given(tokens=st.lists(st.tuples(st.floats(-3, 3), st.integers(0, 4)), min_size=1, max_size=8), rule=rules)
@settings(max_examples=150, deadline=None)
def test_weights_are_those_of_their_definition(tokens: list[tuple[float, int]], rule: Correction) -> None:
    log_ratios, ages = [value for value, _ in tokens], [age for _, age in tokens]
    found = weigh(np.array([log_ratios]), np.ones((1, len(tokens)), bool), np.array([ages]), rule)
    assert found.weights_BT[0] == pytest.approx(by_hand(log_ratios, ages, rule), rel=1e-9)


@pytest.mark.long
@given(
    rows=st.integers(1, 3).flatmap(
        lambda width: st.lists(
            st.lists(st.tuples(number, st.booleans(), st.integers(0, 1000)), min_size=width, max_size=width),
            min_size=1,
            max_size=4,
        )
    ),
    rule=SHAPES,
)
@settings(max_examples=200, deadline=None)
def test_whatever_the_log_ratios_a_weight_is_finite_bounded_and_never_negative(
    rows: list[list[tuple[float, bool, int]]], rule: Correction
) -> None:
    log_ratio = np.array([[value for value, _, _ in row] for row in rows])
    valid = np.array([[there for _, there, _ in row] for row in rows])
    ages = np.array([[age for _, _, age in row] for row in rows])
    found = weigh(log_ratio, valid, ages, rule)
    assert np.isfinite(found.weights_BT).all()
    assert (found.weights_BT >= 0).all()
    if rule.cap is not None:
        assert found.weights_BT.max() <= rule.cap * (1 + 1e-9)
    assert not found.weights_BT[~valid].any()
    assert not found.weights_BT[found.broken_BT].any()
    assert np.array_equal(found.broken_BT, valid & ~(np.abs(log_ratio) <= 30))


@given(value=st.floats(-3, 3), rule=SHAPES)
@settings(max_examples=200, deadline=None)
def test_an_older_token_never_counts_more(value: float, rule: Correction) -> None:
    ages = np.array([[0], [1], [2], [7]])
    weights = weigh(np.full((4, 1), value), np.ones((4, 1), bool), ages, rule).weights_BT[:, 0]
    assert np.all(np.diff(weights) <= 1e-12)


def test_by_default_old_tokens_are_capped_closer_to_one() -> None:
    rule = TrainerConfig().correction
    log_ratio = np.full((1, 3), math.log(4.0))
    weights = weigh(log_ratio, np.ones((1, 3), bool), np.array([[0, 1, 2]]), rule).weights_BT
    assert weights[0] == pytest.approx([2.0, 1.5, 1.25])


def test_without_a_correction_nothing_is_truncated() -> None:
    log_ratio = np.array([[2.0, -2.0]])
    found = weigh(log_ratio, np.ones((1, 2), bool), np.array([[0, 5]]), Correction("none", cap=1.0))
    assert found.weights_BT.tolist() == [[1.0, 1.0]]
    assert not found.truncated_BT.any()


def surrogate(
    toy: Path, group: Group, rule: Correction, penalty: float = 0.0, reference: Path | None = None
) -> tuple[float, dict[str, torch.Tensor]]:
    """Sum over calls and tokens of -min(r w A, clip(r) w A) + penalty * r * k3(reference), over the token count, and
    its gradient. No padding, no batching, none of our code but the rule's fields."""
    model = AutoModelForCausalLM.from_pretrained(toy, dtype=torch.float32)
    anchor = AutoModelForCausalLM.from_pretrained(reference or toy, dtype=torch.float32)
    total = torch.zeros(())
    for rollout in group.rollouts:
        for call in rollout.calls:
            ids = torch.tensor([call.prompt_ids + call.completion_ids])
            places = (range(len(call.completion_ids)), list(call.completion_ids))
            now = model(ids).logits[0, len(call.prompt_ids) - 1 : -1].log_softmax(-1)[places]
            with torch.no_grad():
                then = anchor(ids).logits[0, len(call.prompt_ids) - 1 : -1].log_softmax(-1)[places]
            sampled = torch.tensor(call.logprobs)
            gaps = (now.detach() - sampled).tolist()
            weights = torch.tensor(by_hand(gaps, [group.update - version for version in call.versions], rule))
            ratio = (now - (sampled if rule.kind == "behaviour" else now.detach())).exp()
            earned = weights * rollout.advantage
            total = total - torch.minimum(ratio * earned, ratio.clamp(0.8, 1.28) * earned).sum()
            total = total + penalty * (ratio * ((then - now).exp() - (then - now) - 1)).sum()
    loss = total / group.tokens
    loss.backward()
    return float(loss.detach()), {name: gradient_of(weight) for name, weight in model.named_parameters()}


@pytest.mark.parametrize("kind", KINDS)
def test_trl_s_loss_and_gradient_with_the_weights_are_those_written_out_by_hand(
    toy: Path, tmp_path: Path, kind: CorrectionKind
) -> None:
    group = random_group(seed=4, rollouts=5, update=3, max_age=2)
    rule = Correction(kind, 1.3, 0.5)
    trainer = load_trainer(toy, TrainerConfig(micro_tokens=100, correction=rule), tmp_path)
    metrics = trainer.accumulate(group)
    loss, gradient = surrogate(toy, group, rule)
    assert metrics["loss"] == pytest.approx(loss, abs=1e-5)
    assert (metrics["truncated_fraction"] > 0.05) == (kind != "none")
    for name, weight in trainer.policy.named_parameters():
        torch.testing.assert_close(weight.grad, gradient[name], atol=1e-5, rtol=1e-4)


def test_the_kl_penalty_is_trl_s_k3_against_version_0_over_all_tokens(toy: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in toy.iterdir():
        (moved / file.name).write_bytes(file.read_bytes())
    model = AutoModelForCausalLM.from_pretrained(toy, dtype=torch.float32)
    with torch.no_grad():
        model.lm_head.weight.mul_(3.0)
    model.save_pretrained(moved)
    group = random_group(seed=4, rollouts=3)
    settings = TrainerConfig(micro_tokens=100, kl_penalty=0.1)
    trainer = load_trainer(moved, settings, tmp_path, toy)
    metrics = trainer.accumulate(group)
    loss, gradient = surrogate(moved, group, settings.correction, penalty=0.1, reference=toy)
    assert metrics["loss"] == pytest.approx(loss, abs=1e-5)
    assert metrics["kl_reference"] > 1e-3
    for name, weight in trainer.policy.named_parameters():
        torch.testing.assert_close(weight.grad, gradient[name], atol=1e-5, rtol=1e-4)
    assert load_trainer(toy, TrainerConfig(), tmp_path, toy).reference is None


@pytest.mark.fault("Replay and learner", "log-ratios of a thousand")
@pytest.mark.parametrize("kind", CORRECTIONS)
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_log_ratios_of_a_thousand_are_counted_and_change_nothing(
    toy: Path, tmp_path: Path, kind: str, advantage: float
) -> None:
    trainer = load_trainer(toy, TrainerConfig(learning_rate=1e-3, correction=Correction(kind)), tmp_path)
    with torch.no_grad():
        near = float(trainer.policy(torch.tensor([[5, 6]])).logits[0, -1].log_softmax(-1)[7])

    def group(*logprobs: float) -> Group:
        calls = tuple(TrainedCall((5, 6), (7,), (logprob,), (0,)) for logprob in logprobs)
        return Group(1, 0, "grpo", 0.0, 0, (TrainedRollout(1, advantage, 0.0, calls),))

    trainer.accumulate(group(near, near))
    alone = {name: gradient_of(weight) / 2 for name, weight in trainer.policy.named_parameters()}
    metrics = trainer.accumulate(group(near, -1000.0))
    assert metrics["broken_tokens"] == 1
    for name, weight in trainer.policy.named_parameters():
        torch.testing.assert_close(weight.grad, alone[name], atol=1e-6, rtol=1e-5)
    before = {name: weight.detach().clone() for name, weight in trainer.policy.named_parameters()}
    taken = trainer.step(group(-1000.0, -1000.0))
    assert taken.reason == "no token is left after the correction"
    assert taken.metrics["broken_tokens"] == 2
    assert all(torch.equal(weight, before[name]) for name, weight in trainer.policy.named_parameters())


def test_a_model_whose_own_logprobs_are_no_numbers_is_not_trained(toy: Path, tmp_path: Path) -> None:
    trainer = load_trainer(toy, TrainerConfig(), tmp_path)
    with torch.no_grad():
        trainer.policy.lm_head.weight[3, 0] = math.nan
    taken = trainer.step(replace(random_group(rollouts=2), update=0))
    assert taken.reason == "the loss is not finite"
    for name, weight in trainer.policy.named_parameters():
        assert torch.isfinite(weight).all() or name in {"lm_head.weight", "model.embed_tokens.weight"}
