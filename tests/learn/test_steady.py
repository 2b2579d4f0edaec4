"""No pass of training is random, and no term of the loss depends on the cut into passes."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from pace_async.learn import trainer
from pace_async.learn.lineage import GroupRefused, Lineage
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.steady import RandomPasses, refuse_noise
from pace_async.learn.trainer import GroupTrainer, load_trainer
from tests.support.families import FAMILIES, VOCAB, write_model
from tests.support.learn_toys import random_group

SETTINGS = TrainerConfig(micro_tokens=400)
NOISE: dict[str, dict[str, Any]] = {
    "granite": {"attention_dropout": 0.1},
    "llama": {"attention_dropout": 0.1},
    "qwen2": {"attention_dropout": 0.1},
    "mixtral": {"attention_dropout": 0.1, "router_jitter_noise": 0.2},
    "qwen3_moe": {"attention_dropout": 0.1},
    "gpt_oss": {"attention_dropout": 0.1},
    "phi3": {"attention_dropout": 0.1, "resid_pdrop": 0.1, "embd_pdrop": 0.1},
    "gemma2": {"attention_dropout": 0.1},
    "gpt2": {"attn_pdrop": 0.1, "resid_pdrop": 0.1, "embd_pdrop": 0.1},
    "opt": {"attention_dropout": 0.1, "dropout": 0.1, "layerdrop": 0.2},
}
MODES = {
    "plain": SETTINGS,
    "gradient checkpointing": replace(SETTINGS, gradient_checkpointing=True),
    "adapters": replace(SETTINGS, lora_rank=4),
}


def gradient(trainer: GroupTrainer, **more: Any) -> tuple[dict[str, Tensor], dict[str, float]]:
    metrics = trainer.accumulate(random_group(vocab=VOCAB, seed=1, **more))
    weights = trainer.policy.named_parameters()
    return {name: weight.grad.clone() for name, weight in weights if weight.grad is not None}, metrics


def apart(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Relative distance of two gradients."""
    assert one.keys() == other.keys() and one
    difference = sum(float((one[name] - other[name]).double().square().sum()) for name in one)
    return math.sqrt(difference / sum(float(tensor.double().square().sum()) for tensor in other.values()))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:fan_in_fan_out:UserWarning", "ignore:The following:RuntimeWarning")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", NOISE)
def test_a_gradient_is_that_of_a_model_without_dropout_whatever_config_json_says(
    family: str, mode: str, tmp_path: Path
) -> None:
    noisy = load_trainer(write_model(tmp_path / "noisy", family, **NOISE[family]), MODES[mode], tmp_path)
    off: dict[str, Any] = dict.fromkeys(NOISE[family], 0.0)
    calm = load_trainer(write_model(tmp_path / "calm", family, **off), MODES[mode], tmp_path)
    first, _ = gradient(noisy)
    again, _ = gradient(noisy)
    expected, _ = gradient(calm)
    assert apart(first, again) == 0.0
    assert apart(first, expected) < 1e-6
    prompt, answer = [2, 3, 4], [5, 6, 7, 8]
    assert noisy.logprobs(prompt, answer) == pytest.approx(calm.logprobs(prompt, answer), abs=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("family", [family for family in FAMILIES if family in ("mixtral", "qwen3_moe", "gpt_oss")])
def test_a_mixture_has_no_loss_beside_the_documented_one(family: str, tmp_path: Path) -> None:
    found: list[dict[str, Tensor]] = []
    losses: list[float] = []
    for coefficient in (0.0, 0.9):
        folder = write_model(tmp_path / f"{coefficient}", family, router_aux_loss_coef=coefficient)
        for tokens in (20, 8192):
            given, metrics = gradient(load_trainer(folder, replace(SETTINGS, micro_tokens=tokens), tmp_path))
            found.append(given)
            losses.append(metrics["loss"])
    assert losses == pytest.approx([losses[0]] * 4, abs=1e-5)
    assert max(apart(one, found[0]) for one in found) < 1e-4


def test_a_mixture_computes_in_bfloat16_where_the_settings_say_so(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", "qwen3_moe", router_aux_loss_coef=0.001)
    whole, _ = gradient(load_trainer(folder, SETTINGS, tmp_path))
    half, _ = gradient(load_trainer(folder, replace(SETTINGS, precision="bf16"), tmp_path))
    assert apart(half, whole) > 1e-4


class Noisy(nn.Linear):
    """Random in every mode."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + 0.05 * torch.randn(self.out_features)


@pytest.mark.fault("Learning", "a model whose passes are random is refused by name")
def test_a_model_that_is_random_in_any_case_is_refused_with_the_module_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_model(tmp_path / "model", "llama", attention_dropout=0.25)
    loaded: Callable[..., Any] = trainer.load_model

    def noisy(*given: Any) -> Any:
        model = loaded(*given)
        own = model.model.layers[1].mlp.up_proj
        other = Noisy(own.in_features, own.out_features, bias=False)
        other.load_state_dict(own.state_dict())
        model.model.layers[1].mlp.up_proj = other
        return model

    monkeypatch.setattr(trainer, "load_model", noisy)
    with pytest.raises(RandomPasses, match=r"model\.layers\.1\.mlp\.up_proj \(Noisy\), with attention_dropout 0\.25"):
        load_trainer(folder, SETTINGS, tmp_path)
    with pytest.raises(GroupRefused, match="two passes of the model over one text differ") as refused:
        Lineage(folder, tmp_path / "out", SETTINGS).start([])
    assert refused.value.setting


def test_the_check_changes_no_weight_and_leaves_no_gradient(tmp_path: Path) -> None:
    made = load_trainer(write_model(tmp_path / "model", "mixtral"), SETTINGS, tmp_path)
    before = {name: weight.detach().clone() for name, weight in made.policy.named_parameters()}
    refuse_noise(made.policy, made.ranks)
    for name, weight in made.policy.named_parameters():
        assert torch.equal(weight, before[name])
        assert weight.grad is None
    assert made.policy.training
    assert not any(module.training for module in made.policy.modules() if module is not made.policy)


def test_adapters_that_change_nothing_have_no_penalty(tmp_path: Path) -> None:
    """The reference of the penalty has the type of the policy without adapters."""
    folder = write_model(tmp_path / "model", "llama", dtype=torch.bfloat16)
    settings = replace(SETTINGS, lora_rank=4, kl_penalty=10.0)
    with_penalty = load_trainer(folder, settings, tmp_path, folder)
    assert cast("Any", with_penalty.reference).dtype == torch.bfloat16
    pulled, metrics = gradient(with_penalty)
    without, _ = gradient(load_trainer(folder, replace(settings, kl_penalty=0.0), tmp_path, folder))
    assert metrics["kl_reference"] == 0.0
    assert apart(pulled, without) == 0.0
