"""How far one update may move the policy: measured, shortened, undone."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pace_async.learn import trainer as trainer_module
from pace_async.learn.backtrack import BeforeStep
from pace_async.learn.lineage import Lineage
from pace_async.learn.movement import MovementLimits, beyond, movement, too_far
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.store import optimizer_state
from pace_async.learn.trainer import GroupTrainer, load_trainer
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from pace_async.replay.groupfile import write_group
from tests.support.learn_toys import random_group

FREE = TrainerConfig(learning_rate=3e-2, micro_tokens=200, weight_decay=0.0)
HELD = replace(FREE, limits=MovementLimits(k3=0.01, ess=0.9))


def state(trainer: GroupTrainer) -> dict[str, torch.Tensor]:
    weights = {name: weight.detach() for name, weight in trainer.policy.named_parameters()}
    return {name: tensor.clone() for name, tensor in {**weights, **optimizer_state(trainer)}.items()}


def assert_same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


LOGPROBS = arrays(np.float64, 12, elements=st.floats(-20, 0))


@given(LOGPROBS, LOGPROBS)
def test_a_movement_is_never_negative_and_nothing_where_nothing_moved(before: np.ndarray, after: np.ndarray) -> None:
    moved, still = movement(before, after), movement(before, before)
    assert (moved.k3, moved.sure_k3) >= (0.0, 0.0)
    assert 0.0 < moved.ess <= 1.0 + 1e-12
    assert (still.k3, still.sure_k3, still.ess) == (0.0, 0.0, pytest.approx(1.0))
    assert beyond(still, MovementLimits(1e-9, 1 - 1e-9, 1e-9)) == ""


def test_only_tokens_that_the_policy_was_sure_of_count_as_its_form() -> None:
    before = np.log([0.95, 0.5, 0.99])
    moved = movement(before, before + np.array([0.0, -1.0, 0.0]))
    assert moved.sure_k3 == 0.0 < moved.k3
    assert movement(before, before - np.array([0.1, 0.0, 0.0])).sure_k3 == pytest.approx((math.exp(-0.1) - 0.9) / 2)


def test_weights_with_nan_logprobs_are_beyond_every_limit() -> None:
    moved = movement(np.array([-1.0, -2.0]), np.array([-1.0, math.nan]))
    assert too_far(moved, MovementLimits(k3=1.0))
    assert too_far(moved, MovementLimits(ess=0.1))


@pytest.mark.fault("Learning", "a step that moves the policy too far is shortened")
def test_a_step_beyond_the_limit_is_halved_until_it_is_within_and_its_momentum_with_it(
    toy: Path, tmp_path: Path
) -> None:
    group = random_group(seed=4)
    free, held = load_trainer(toy, FREE, tmp_path), load_trainer(toy, HELD, tmp_path)
    before = state(held)
    free.step(group)
    taken = held.step(group)
    assert taken.reason == ""
    assert taken.metrics["moved_k3"] <= 0.01
    assert taken.metrics["moved_ess"] >= 0.9
    scale = taken.metrics["step_scale"]
    assert scale in (0.5, 0.25, 0.125, 0.0625, 0.03125)
    whole, part = state(free), state(held)
    for name, weight in held.policy.named_parameters():
        torch.testing.assert_close(
            part[name] - before[name], scale * (whole[name] - before[name]), rtol=1e-3, atol=1e-6
        )
        if weight.grad is not None or f"{name}/exp_avg" in part:
            torch.testing.assert_close(part[f"{name}/exp_avg"], scale * whole[f"{name}/exp_avg"])
            assert torch.equal(part[f"{name}/exp_avg_sq"], whole[f"{name}/exp_avg_sq"])
    moved = movement(logprobs(load_trainer(toy, FREE, tmp_path), group), logprobs(held, group))
    assert taken.metrics["moved_k3"] == pytest.approx(moved.k3, rel=1e-3)


def logprobs(trainer: GroupTrainer, group: Group) -> np.ndarray:
    calls = [call for rollout in group.rollouts for call in rollout.calls]
    return np.concatenate([trainer.logprobs(list(call.prompt_ids), list(call.completion_ids)) for call in calls])


@pytest.mark.fault("Learning", "a step that no shortening brings within the limit is discarded")
def test_a_step_that_stays_beyond_the_limit_leaves_weights_and_optimizer_to_the_last_bit(
    toy: Path, tmp_path: Path
) -> None:
    strict = replace(FREE, limits=MovementLimits(k3=1e-9))
    trainer, other = load_trainer(toy, replace(strict, learning_rate=1e-7), tmp_path), load_trainer(toy, FREE, tmp_path)
    untouched = state(trainer)
    bad, good = random_group(seed=4), random_group(seed=5)
    trainer.settings = strict
    taken = trainer.step(bad)
    assert "the step moved the policy too far (k3" in taken.reason
    assert taken.metrics["step_scale"] == 0.0
    assert_same(state(trainer), untouched)
    trainer.settings = FREE
    trainer.step(good)
    other.step(good)
    assert_same(state(trainer), state(other))
    trainer.settings = strict
    before = state(trainer)
    assert trainer.step(bad).reason
    assert_same(state(trainer), before)


def of_form(*advantages: float) -> Group:
    """A group of one-token answers."""
    call = TrainedCall((5, 6, 7), (9,), (-0.1,), (0,))
    rollouts = (TrainedRollout(lease + 1, one, 0.0, (call,)) for lease, one in enumerate(advantages))
    return Group(1, 0, "grpo", 0.0, 0, tuple(rollouts))


@pytest.mark.fault("Learning", "one rare token does not move the form of all other answers")
def test_tokens_that_the_policy_is_sure_of_hardly_move_by_one_punished_answer(toy: Path, tmp_path: Path) -> None:
    """The form, token 9 after 7, is in both answers, of which one is punished."""
    fell: list[float] = []
    for limits in (MovementLimits(), MovementLimits(sure_k3=1e-6)):
        trainer = load_trainer(toy, replace(FREE, learning_rate=1e-2), tmp_path)
        while (sure := trainer.logprobs([5, 6, 7], [9])[0]) < math.log(0.95):
            trainer.step(of_form(1.0))
        trainer.adamw.state.clear()  # as weights whose gradients have long been near 0
        trainer.settings = replace(trainer.settings, limits=limits)
        trainer.step(of_form(-1.0, 0.1))
        fell.append(sure - trainer.logprobs([5, 6, 7], [9])[0])
    assert fell[0] > 0.01, "without the limit the same step moves the form"
    assert abs(fell[1]) < fell[0] / 16


def test_without_a_limit_no_weight_is_copied_before_a_step(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[object] = []

    class Counted(BeforeStep):
        def __init__(self, adamw: torch.optim.AdamW) -> None:
            copies.append(adamw)
            super().__init__(adamw)

    monkeypatch.setattr(trainer_module, "BeforeStep", Counted)
    for settings, expected in ((FREE, 0), (HELD, 1)):
        assert load_trainer(toy, settings, tmp_path).step(random_group(seed=4)).reason == ""
        assert len(copies) == expected


@pytest.mark.long
@pytest.mark.parametrize("every", [1, 3])
def test_shortened_and_warmed_up_steps_are_rebuilt_to_the_last_bit(toy: Path, tmp_path: Path, every: int) -> None:
    settings = replace(HELD, checkpoint_every=every, warmup=4)
    paths = [tmp_path / f"{update + 1:06d}.safetensors" for update in range(5)]
    for update, path in enumerate(paths):
        write_group(path, random_group(seed=update, update=update, number=update + 1, rollouts=4))
    straight = Lineage(toy, tmp_path / "straight", settings)
    straight.start([])
    scales = [straight.train(path).metrics["step_scale"] for path in paths]
    assert any(scale < 1 for scale in scales), "the limit must bind somewhere"
    for version in range(5):
        broken = Lineage(toy, tmp_path / "broken", settings)
        broken.start(paths[:version])
        assert broken.train(paths[version]).metrics["step_scale"] == scales[version]
        if version == 4:
            assert_same(state(broken.trainer), state(straight.trainer))


def test_the_learning_rate_grows_over_the_first_updates(toy: Path, tmp_path: Path) -> None:
    trainer = load_trainer(toy, replace(FREE, learning_rate=1e-3, warmup=4), tmp_path)
    rates: list[float] = []
    for seed in range(6):
        trainer.step(random_group(seed=seed))
        rates.append(trainer.adamw.param_groups[0]["lr"])
    assert rates == pytest.approx([2.5e-4, 5e-4, 7.5e-4, 1e-3, 1e-3, 1e-3])
