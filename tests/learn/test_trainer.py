"""The step: TRL's loss against the formula written out, and what a bad step must not do."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from transformers import AutoModelForCausalLM

from pace_async.learn.coefficients import coefficients
from pace_async.learn.correction import Correction
from pace_async.learn.lengths import TooLong
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import GroupTrainer, load_trainer
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from scripts.benchmarks.toys import write_llama
from tests.support.learn_toys import VOCAB, gradient_of, random_group

SETTINGS = TrainerConfig(learning_rate=1e-3, micro_tokens=120, correction=Correction("behaviour", cap=None))


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("toy") / "model", vocab=VOCAB, width=32, layers=2)


def make(toy: Path, tmp_path: Path, settings: TrainerConfig = SETTINGS) -> GroupTrainer:
    return load_trainer(toy, settings, tmp_path)


def weights_of(trainer: GroupTrainer) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in trainer.policy.named_parameters()}


def surrogate(
    toy: Path, group: Group, low: float, high: float, temperature: float = 1.0
) -> tuple[float, dict[str, torch.Tensor]]:
    """-Σ min(rA, clip(r)A) / Σ 1 over all answer tokens, one call at a time, without padding, and its gradient."""
    model = AutoModelForCausalLM.from_pretrained(toy, dtype=torch.float32)
    total = torch.zeros(())
    for rollout in group.rollouts:
        for call in rollout.calls:
            ids = torch.tensor([call.prompt_ids + call.completion_ids])
            logits = model(ids).logits[0, len(call.prompt_ids) - 1 : -1] / temperature
            logprobs = logits.log_softmax(-1)[range(len(call.completion_ids)), list(call.completion_ids)]
            ratio = (logprobs - torch.tensor(call.logprobs)).exp()
            clipped = ratio.clamp(1 - low, 1 + high)
            total = total - torch.minimum(ratio * rollout.advantage, clipped * rollout.advantage).sum()
    loss = total / group.tokens
    loss.backward()
    return float(loss.detach()), {name: gradient_of(weight) for name, weight in model.named_parameters()}


@pytest.mark.long
@pytest.mark.parametrize("micro_tokens", [1, 30, 100, 10_000])
def test_loss_and_gradient_are_the_token_mean_of_the_clipped_surrogate_however_the_group_is_cut(
    toy: Path, tmp_path: Path, micro_tokens: int
) -> None:
    group = random_group(seed=3)
    trainer = make(toy, tmp_path, replace(SETTINGS, micro_tokens=micro_tokens))
    metrics = trainer.accumulate(group)
    loss, gradient = surrogate(toy, group, 0.2, 0.28)
    assert metrics["loss"] == pytest.approx(loss, abs=1e-5)
    assert 0.05 < metrics["clip_fraction"] < 0.95, "the group must exercise the clip"
    for name, weight in trainer.policy.named_parameters():
        torch.testing.assert_close(weight.grad, gradient[name], atol=1e-5, rtol=1e-4)
    norm = math.sqrt(sum(float(grad.square().sum()) for grad in gradient.values()))
    assert trainer.step(group).metrics["grad_norm"] == pytest.approx(norm, rel=1e-4)


@pytest.mark.parametrize("micro_tokens", [30, 10_000])
def test_a_summed_loss_has_the_gradient_of_the_sum_however_the_group_is_cut(
    toy: Path, tmp_path: Path, micro_tokens: int
) -> None:
    group = random_group(seed=3)
    trainer = make(toy, tmp_path, replace(SETTINGS, micro_tokens=micro_tokens, loss_type="sum"))
    metrics = trainer.accumulate(group)
    mean, gradient = surrogate(toy, group, 0.2, 0.28)
    assert group.tokens > 1 and metrics["loss"] == pytest.approx(mean * group.tokens, rel=1e-4)
    for name, weight in trainer.policy.named_parameters():
        torch.testing.assert_close(weight.grad, gradient[name] * group.tokens, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize(("loss_type", "divisor"), [("dapo", 3.0), ("sum", 1.0)])
def test_the_loss_of_two_answers_is_that_worked_out_by_hand(
    toy: Path, tmp_path: Path, loss_type: Literal["dapo", "sum"], divisor: float
) -> None:
    trainer = make(toy, tmp_path, replace(SETTINGS, loss_type=loss_type))
    first, second = trainer.logprobs([5, 6], [7]), trainer.logprobs([5, 6], [8, 9])
    short = TrainedCall((5, 6), (7,), tuple(first), (0,))
    long = TrainedCall((5, 6), (8, 9), tuple(second), (0, 0))
    rollouts = TrainedRollout(1, 2.0, 0.0, (short,)), TrainedRollout(2, -0.5, 0.0, (long,))
    group = Group(1, 0, "grpo", 0.0, 0, rollouts)
    # On-policy each ratio is 1, so the loss is minus the sum of advantages by token: -(2 - 0.5 - 0.5).
    assert trainer.accumulate(group)["loss"] == pytest.approx(-1.0 / divisor, abs=1e-6)
    found = coefficients(group, [first, second], trainer.settings)
    assert found.loss == pytest.approx(-1.0 / divisor)
    assert [each.tolist() for each in found.calls] == [
        pytest.approx([2.0 / divisor]),
        pytest.approx([-0.5 / divisor, -0.5 / divisor]),
    ]


def test_logits_are_divided_by_the_temperature_that_sampled(toy: Path, tmp_path: Path) -> None:
    group = random_group(seed=5)
    metrics = make(toy, tmp_path, replace(SETTINGS, temperature=0.5)).accumulate(group)
    loss, _ = surrogate(toy, group, 0.2, 0.28, temperature=0.5)
    assert metrics["loss"] == pytest.approx(loss, abs=1e-5)


def one_token(logprob: float, advantage: float) -> Group:
    call = TrainedCall((5, 6), (7,), (logprob,), (0,))
    return Group(1, 0, "grpo", 0.0, 0, (TrainedRollout(1, advantage, 0.0, (call,)),))


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [(1.5, 1.0, False), (1.5, -1.0, True), (0.5, 1.0, True), (0.5, -1.0, False), (1.27, 1.0, True), (0.81, -1.0, True)],
)
def test_a_token_far_from_the_policy_that_sampled_it_is_not_pushed_further_away(
    toy: Path, tmp_path: Path, ratio: float, advantage: float, moves: bool
) -> None:
    trainer = make(toy, tmp_path)
    with torch.no_grad():
        now = trainer.policy(torch.tensor([[5, 6]])).logits[0, -1].log_softmax(-1)[7]
    metrics = trainer.accumulate(one_token(float(now) - torch.tensor(ratio).log().item(), advantage))
    assert metrics["mean_ratio"] == pytest.approx(ratio, rel=1e-4)
    assert metrics["clip_fraction"] == (0.0 if moves else 1.0)
    moved = any(bool(gradient_of(weight).abs().max() > 0) for weight in trainer.policy.parameters())
    assert moved is moves


def test_an_advantage_reaches_every_token_of_every_call_of_its_rollout_and_no_other(toy: Path, tmp_path: Path) -> None:
    group = random_group(seed=7, rollouts=3, calls=3)
    silent = replace(group, rollouts=tuple(replace(rollout, advantage=0.0) for rollout in group.rollouts))
    trainer = make(toy, tmp_path)
    parts: list[dict[str, torch.Tensor]] = []
    for place, rollout in enumerate(group.rollouts):
        alone = [*silent.rollouts[:place], rollout, *silent.rollouts[place + 1 :]]
        trainer.accumulate(replace(group, rollouts=tuple(alone)))
        parts.append({name: gradient_of(weight).clone() for name, weight in trainer.policy.named_parameters()})
        _, expected = surrogate(toy, replace(group, rollouts=(rollout,)), 0.2, 0.28)
        share = sum(len(call.completion_ids) for call in rollout.calls) / group.tokens
        for name, gradient in parts[-1].items():
            torch.testing.assert_close(gradient, expected[name] * share, atol=1e-5, rtol=1e-4)
    trainer.accumulate(group)
    for name, weight in trainer.policy.named_parameters():
        torch.testing.assert_close(weight.grad, sum(part[name] for part in parts), atol=1e-5, rtol=1e-4)


def test_a_step_makes_rewarded_answers_likelier_and_punished_ones_less_likely(toy: Path, tmp_path: Path) -> None:
    group = random_group(seed=2, logprob=-3.6, calls=1)
    trainer = make(toy, tmp_path, replace(SETTINGS, weight_decay=0.0))
    before = trainer.accumulate(group)["loss"]
    assert trainer.step(group).reason == ""
    assert trainer.accumulate(group)["loss"] < before - 1e-3


@pytest.mark.fault("Weights", "a step that is not finite is discarded")
@pytest.mark.parametrize(
    ("advantage", "ratio", "reason"),
    [(-3e38, 1.27, "the loss is not finite"), (3e38, 1.0, "the gradient is not finite")],
)
def test_a_step_that_is_not_finite_leaves_weights_and_optimizer_as_they_were(
    toy: Path, tmp_path: Path, advantage: float, ratio: float, reason: str
) -> None:
    trainer = make(toy, tmp_path)
    good = random_group(seed=1)
    trainer.step(good)
    weights, optimizer = weights_of(trainer), trainer.adamw.state_dict()["state"]
    moments = {key: {name: value.clone() for name, value in state.items()} for key, state in optimizer.items()}
    with torch.no_grad():
        now = trainer.policy(torch.tensor([[5, 6]])).logits[0, -1].log_softmax(-1)[7]
    taken = trainer.step(one_token(float(now) - math.log(ratio), advantage))
    assert taken.reason == reason
    for name, weight in weights_of(trainer).items():
        assert torch.equal(weight, weights[name])
    for key, state in trainer.adamw.state_dict()["state"].items():
        assert all(torch.equal(value, moments[key][name]) for name, value in state.items())
    assert trainer.step(good).reason == ""


def test_a_group_without_any_advantage_is_discarded_before_weight_decay_acts(toy: Path, tmp_path: Path) -> None:
    trainer = make(toy, tmp_path)
    weights = weights_of(trainer)
    assert trainer.step(one_token(-3.0, 0.0)).reason == "every advantage is 0"
    assert all(torch.equal(weight, weights[name]) for name, weight in weights_of(trainer).items())


def test_weights_are_trained_in_float32_even_if_given_in_bfloat16(toy: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    half.mkdir()
    for file in toy.iterdir():
        (half / file.name).write_bytes(file.read_bytes())
    AutoModelForCausalLM.from_pretrained(toy, dtype=torch.bfloat16).save_pretrained(half)
    trainer = make(half, tmp_path, replace(SETTINGS, learning_rate=1e-6))
    before = weights_of(trainer)
    trainer.step(random_group(seed=1))
    after = weights_of(trainer)
    assert {weight.dtype for weight in after.values()} == {torch.float32}
    moved = sum(int((after[name] != before[name]).sum()) for name in after)
    assert moved > 0.9 * sum(weight.numel() for weight in after.values())


def test_a_call_beyond_the_length_limit_is_refused_before_anything_is_computed(toy: Path, tmp_path: Path) -> None:
    group = random_group(seed=1)
    longest = max(len(call.prompt_ids + call.completion_ids) for one in group.rollouts for call in one.calls)
    trainer = make(toy, tmp_path, replace(SETTINGS, max_length=longest - 1))
    weights = weights_of(trainer)
    with pytest.raises(TooLong, match=rf"a call of {longest} tokens and learner.max_length is {longest - 1}: raise it"):
        trainer.step(group)
    assert all(torch.equal(weight, weights[name]) for name, weight in weights_of(trainer).items())
    assert make(toy, tmp_path, replace(SETTINGS, max_length=longest)).step(group).reason == ""
    with pytest.raises(TooLong, match="the model's context is no longer"):
        make(toy, tmp_path).step(random_group(rollouts=1, calls=1, answer=(2060, 2060)))
