"""Corrections that look at a whole call or at the whole group, and the learning rate that follows the sample
size, against their formulas written out token by token."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from pace_async.learn.correction import Booleans, Correction, Floats, selection, weigh
from pace_async.learn.m2po import m2po
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import load_trainer
from pace_async.replay.group import Group, TrainedCall
from tests.support.learn_toys import gradient_of, random_group

CALLS = st.lists(st.lists(st.floats(-2, 2), min_size=1, max_size=6), min_size=1, max_size=5)


def kept_by_hand(log_ratios: list[float], limit: float) -> list[bool]:
    """Leaves out the token that moved farthest, with its equals, until the mean square of the rest is in the limit."""
    kept: list[float] = [value**2 for value in log_ratios]
    while kept and sum(kept) / len(kept) > limit:
        farthest = max(kept)
        kept = [square for square in kept if square < farthest]
    return [value**2 in kept for value in log_ratios]


def padded(calls: list[list[float]]) -> tuple[Floats, Booleans]:
    width = max(map(len, calls))
    log_ratio = np.array([[*call, *[7.0] * (width - len(call))] for call in calls])
    return log_ratio, np.array([[place < len(call) for place in range(width)] for call in calls])


squares = st.one_of(st.floats(-2, 2), st.sampled_from([0.0, 0.1, -0.1, 0.5, 2.0]))


@given(log_ratios=st.lists(squares, min_size=1, max_size=12), limit=st.sampled_from([1e-3, 0.04, 0.3, 10.0]))
@settings(max_examples=200, deadline=None)
def test_m2po_leaves_out_the_farthest_tokens_until_the_second_moment_is_in_its_limit(
    log_ratios: list[float], limit: float
) -> None:
    kept = m2po(np.array(log_ratios), limit)
    prefix = np.sort(np.square(log_ratios))
    if np.min(np.abs(np.cumsum(prefix) - limit * np.arange(1, len(prefix) + 1))) < 1e-9:
        return  # rounding decides
    assert kept.tolist() == kept_by_hand(log_ratios, limit)
    if kept.any():
        assert np.mean(np.square(log_ratios)[kept]) <= limit


@given(calls=CALLS, cut=st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_m2po_s_choice_does_not_depend_on_the_cut_into_micro_batches(calls: list[list[float]], cut: int) -> None:
    rule = Correction("m2po", cap=None)
    log_ratio, valid = padded(calls)
    whole = weigh(log_ratio, valid, np.zeros(valid.shape, int), rule).weights_BT
    parts = [part for part in (calls[:cut], calls[cut:]) if part]
    masks = [padded(part) for part in parts]
    kept = selection([one for one, _ in masks], [there for _, there in masks], rule)
    rows: list[float] = []
    for (one, there), mask in zip(masks, kept, strict=True):
        rows += weigh(one, there, np.zeros(there.shape, int), rule, kept_BT=mask).weights_BT[there].tolist()
    assert rows == whole[valid].tolist()


def surrogate(toy: Path, group: Group, rule: Correction) -> tuple[float, dict[str, torch.Tensor]]:
    """-sum w A r / tokens with r = 1 by value, and its gradient. No padding, no batching, none of our code."""
    model = AutoModelForCausalLM.from_pretrained(toy, dtype=torch.float32)
    calls: list[tuple[float, TrainedCall, torch.Tensor, list[float]]] = []
    for rollout in group.rollouts:
        for call in rollout.calls:
            ids = torch.tensor([call.prompt_ids + call.completion_ids])
            places = (range(len(call.completion_ids)), list(call.completion_ids))
            now = model(ids).logits[0, len(call.prompt_ids) - 1 : -1].log_softmax(-1)[places]
            calls.append((rollout.advantage, call, now, (now.detach() - torch.tensor(call.logprobs)).tolist()))
    kept = iter(kept_by_hand([gap for *_, gaps in calls for gap in gaps], rule.second_moment))
    total = torch.zeros(())
    for advantage, call, now, gaps in calls:
        oldest = group.update - min(call.versions)
        if rule.kind in ("sequence", "geometric"):
            ratio = math.exp(sum(gaps) / (len(gaps) if rule.kind == "geometric" else 1))
            weights = [min(ratio, 1 + 0.3 * 0.5**oldest)] * len(gaps)
        else:
            caps = [1 + 0.3 * 0.5 ** (group.update - version) for version in call.versions]
            weights = [min(math.exp(gap), cap) * next(kept) for gap, cap in zip(gaps, caps, strict=True)]
        total = total - ((now - now.detach()).exp() * torch.tensor(weights) * advantage).sum()
    loss = total / group.tokens
    loss.backward()
    return float(loss.detach()), {name: gradient_of(weight) for name, weight in model.named_parameters()}


@pytest.mark.parametrize("kind", ["sequence", "geometric", "m2po"])
@pytest.mark.parametrize("micro_tokens", [60, 8192])
def test_loss_and_gradient_are_those_written_out_by_hand_however_the_group_is_cut(
    toy: Path, tmp_path: Path, kind: str, micro_tokens: int
) -> None:
    group = random_group(seed=4, rollouts=5, update=3, max_age=2)
    rule = Correction(kind, cap=1.3)
    trainer = load_trainer(toy, TrainerConfig(micro_tokens=micro_tokens, correction=rule), tmp_path)
    metrics = trainer.accumulate(group)
    loss, gradient = surrogate(toy, group, rule)
    assert metrics["loss"] == pytest.approx(loss, abs=1e-5)
    assert (metrics["masked_fraction"] > 0.05) == (kind == "m2po")
    for name, weight in trainer.policy.named_parameters():
        torch.testing.assert_close(weight.grad, gradient[name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["sequence", "m2po", "decoupled"])
def test_a_group_trained_again_gives_the_same_weights_to_the_last_bit(toy: Path, tmp_path: Path, kind: str) -> None:
    made: list[list[torch.Tensor]] = []
    group = replace(random_group(seed=6, rollouts=4, update=2, max_age=2), rate=0.5)
    for turn in range(2):
        rule = TrainerConfig(learning_rate=1e-3, correction=Correction(kind))
        trainer = load_trainer(toy, rule, tmp_path / str(turn))
        assert trainer.step(group).reason == ""
        made.append([weight.detach().clone() for weight in trainer.policy.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*made, strict=True))
