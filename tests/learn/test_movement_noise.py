"""Limits on a step lie above what rounding alone moves: in bfloat16 a step is shortened as in float32, and for the same
reason."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from pace_async.learn.backtrack import BeforeStep
from pace_async.learn.movement import (
    ABOVE,
    LIMITS_OFF,
    Movement,
    MovementLimits,
    above_noise,
    beyond,
    movement,
    noise_metrics,
)
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import GroupTrainer, StepResult, load_trainer
from tests.support.format_toys import sampled_group, write_sure

LIMITS = MovementLimits(k3=0.01, ess=0.9, sure_k3=1e-11)
"""The last lies far below what rounding to bfloat16 moves, and far above what a step of 1e-6 does."""
WHOLE = TrainerConfig(limits=LIMITS, weight_decay=0.0)
HALF = replace(WHOLE, precision="bf16")
ADAPTERS = replace(WHOLE, lora_rank=4)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One model as it was trained, and rounded to bfloat16."""
    folder = tmp_path_factory.mktemp("sure")
    off = write_sure(folder / "off")
    shutil.copytree(off, folder / "on")
    cast("Any", AutoModelForCausalLM).from_pretrained(off, dtype=torch.bfloat16).save_pretrained(folder / "on")
    return {"off the grid": off, "on the grid": folder / "on"}


CASES = {
    "float32": ("off the grid", WHOLE, 1e-6, 1e-2),
    "float32, weights of bfloat16": ("on the grid", WHOLE, 1e-6, 1e-2),
    "bfloat16": ("off the grid", HALF, 1e-6, 1e-2),
    "bfloat16, weights of bfloat16": ("on the grid", HALF, 1e-6, 1e-2),
    "adapters": ("off the grid", ADAPTERS, 1e-4, 1e-1),
    "adapters on bfloat16": ("on the grid", ADAPTERS, 1e-4, 1e-1),
    "adapters on bfloat16, in bfloat16": ("on the grid", replace(ADAPTERS, precision="bf16"), 1e-4, 1e-1),
}


def stepped(model: Path, settings: TrainerConfig, out: Path) -> tuple[GroupTrainer, StepResult]:
    trainer = load_trainer(model, settings, out)
    return trainer, trainer.step(sampled_group(trainer))


@pytest.mark.long
@pytest.mark.fault("Learning", "a step that moves the policy too far is shortened")
@pytest.mark.parametrize("name", CASES)
def test_a_small_step_is_taken_whole_and_a_ruinous_one_is_not(
    name: str, models: dict[str, Path], tmp_path: Path
) -> None:
    model, settings, small, ruinous = CASES[name]
    _, taken = stepped(models[model], replace(settings, learning_rate=small), tmp_path)
    assert taken.reason == ""
    assert taken.metrics["step_scale"] == 1.0, taken.metrics
    _, held = stepped(models[model], replace(settings, learning_rate=ruinous), tmp_path)
    assert held.metrics["step_scale"] < 1.0, held.metrics
    assert LIMITS_OFF not in held.metrics
    assert ("noise_k3" in held.metrics) == (name not in ("float32", "float32, weights of bfloat16", "adapters"))


@pytest.mark.long
def test_weights_move_as_far_in_bfloat16_as_in_float32(models: dict[str, Path], tmp_path: Path) -> None:
    moved: list[float] = []
    for settings in (WHOLE, HALF):
        given = load_trainer(models["on the grid"], settings, tmp_path)
        before = {name: weight.detach().clone() for name, weight in given.policy.named_parameters()}
        trainer, _ = stepped(models["on the grid"], replace(settings, learning_rate=1e-6), tmp_path)
        apart = [(weight.detach() - before[name]).square().sum() for name, weight in trainer.policy.named_parameters()]
        moved.append(float(torch.stack(apart).sum().sqrt()))
    assert moved[1] == pytest.approx(moved[0], rel=0.05)


@pytest.mark.long
def test_the_noise_is_measured_with_the_weights_before_the_step_and_changes_nothing(
    models: dict[str, Path], tmp_path: Path
) -> None:
    found: list[dict[str, float]] = []
    for rate in (1e-6, 1e-3):
        _, taken = stepped(models["on the grid"], replace(HALF, learning_rate=rate), tmp_path)
        found.append({name: value for name, value in taken.metrics.items() if name.startswith("noise_")})
    assert found[0] == found[1]
    assert found[0]["noise_k3"] > 0
    trainer, _ = stepped(models["on the grid"], replace(HALF, learning_rate=1e-3), tmp_path)
    before = BeforeStep(trainer.adamw)
    kept = [weight.detach().clone() for weight in trainer.policy.parameters()]
    cast("Any", trainer.adamw).step()
    after = [weight.detach().clone() for weight in trainer.policy.parameters()]
    with before.at_start():
        assert all(torch.equal(one, other) for one, other in zip(trainer.policy.parameters(), kept, strict=True))
    assert all(torch.equal(one, other) for one, other in zip(trainer.policy.parameters(), after, strict=True))
    before.undo()
    assert all(torch.equal(one, other) for one, other in zip(trainer.policy.parameters(), kept, strict=True))


def test_a_limit_is_raised_above_the_largest_noise_and_the_metrics_say_to_what() -> None:
    limits, quiet, loud = MovementLimits(0.01, 0.9, 2e-6), Movement(1e-5, 0.9999, 1e-7), Movement(2e-5, 0.9998, 1e-5)
    raised = above_noise(limits, [quiet, loud])
    assert raised == MovementLimits(0.01, 0.9, ABOVE * 1e-5)
    assert noise_metrics([quiet, loud], limits, raised) == {
        "noise_k3": 2e-5,
        "noise_ess": 0.9998,
        "noise_sure_k3": 1e-5,
        "raised_sure_k3": ABOVE * 1e-5,
    }
    assert beyond(Movement(1e-4, 0.999, 3.9e-5), raised) == ""
    assert "limit 4e-05" in beyond(Movement(1e-4, 0.999, 4.1e-5), raised)


def test_a_limit_that_cannot_be_told_from_noise_is_off_and_is_counted() -> None:
    limits, noise = MovementLimits(0.01, 0.9, 2e-6), Movement(0.3, 0.5, 0.2)
    raised = above_noise(limits, [noise])
    assert raised == MovementLimits()
    assert noise_metrics([noise], limits, raised)[LIMITS_OFF] == 3.0
    assert above_noise(MovementLimits(sure_k3=0.5), [Movement(0.0, 1.0, 0.1)]) == MovementLimits(sure_k3=0.5)


@given(st.lists(st.floats(-20, 0), min_size=1, max_size=8), st.floats(-1, 1))
def test_no_noise_leaves_the_limits_and_nothing_lowers_them(before: list[float], shift: float) -> None:
    limits = MovementLimits(0.01, 0.9, 2e-6)
    logprobs = np.array(before)
    assert above_noise(limits, []) == limits
    assert above_noise(limits, [movement(logprobs, logprobs)]) == limits
    raised = above_noise(limits, [movement(logprobs, logprobs + shift)])
    assert raised.k3 is None or raised.k3 >= 0.01
    assert raised.ess is None or raised.ess <= 0.9
    assert raised.sure_k3 is None or raised.sure_k3 >= 2e-6
    assert above_noise(MovementLimits(), [Movement(0.1, 0.5, 0.1)]) == MovementLimits()
    assert above_noise(limits, [Movement(float("nan"), float("nan"), float("nan"))]) == limits
