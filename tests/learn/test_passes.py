"""Passes that save memory: recomputed activations change nothing, and half precision changes little."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from transformers import modeling_utils
from trl.trainer.grpo_trainer import GRPOTrainer

from pace_async.children import clean_environment
from pace_async.learn import arguments
from pace_async.learn import trainer as training
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.store import LearnerStore, optimizer_state
from pace_async.learn.trainer import GroupTrainer, load_trainer
from scripts.benchmarks.toys import write_llama
from tests.support.learn_toys import VOCAB, gradient_of, random_group

SETTINGS = TrainerConfig(learning_rate=1e-3, micro_tokens=120, kl_penalty=0.1)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("toy") / "model", vocab=VOCAB, width=32, layers=2)


def trained(toy: Path, folder: Path, settings: TrainerConfig, steps: int = 3) -> GroupTrainer:
    trainer = load_trainer(toy, settings, folder, toy)
    for number in range(steps):
        assert trainer.step(random_group(seed=number)).reason == ""
    return trainer


@pytest.mark.long
@pytest.mark.parametrize("lora_rank", [None, 4])
def test_recomputed_activations_give_the_same_weights_to_the_last_bit(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lora_rank: int | None
) -> None:
    recomputed: list[object] = []
    kept = cast("Any", modeling_utils).checkpoint

    def counted(function: Any, *args: Any, **kwargs: Any) -> Any:
        recomputed.append(function)
        return kept(function, *args, **kwargs)

    monkeypatch.setattr(modeling_utils, "checkpoint", counted)
    settings = replace(SETTINGS, lora_rank=lora_rank)
    usual = trained(toy, tmp_path / "usual", settings)
    assert not recomputed
    saving = trained(toy, tmp_path / "saving", replace(settings, gradient_checkpointing=True))
    assert recomputed, "the layers must go through torch's checkpoint"
    for name, weight in usual.policy.named_parameters():
        assert torch.equal(weight, saving.policy.get_parameter(name)), name


def test_passes_in_half_precision_point_the_gradient_the_same_way_and_leave_float32_behind(
    toy: Path, tmp_path: Path
) -> None:
    group = random_group(seed=3)
    gradients: list[torch.Tensor] = []
    for precision in ("fp32", "bf16"):
        trainer = load_trainer(toy, replace(SETTINGS, precision=precision), tmp_path / precision, toy)
        trainer.accumulate(group)
        gradients.append(torch.cat([gradient_of(weight).flatten() for weight in trainer.policy.parameters()]))
    assert all(gradient.dtype == torch.float32 for gradient in gradients)
    assert float(torch.cosine_similarity(*gradients, dim=0)) > 0.99
    assert not torch.equal(*gradients), "half precision must be used"


@pytest.mark.parametrize("recomputes", [False, True])
def test_without_instructions_for_half_precision_products_are_rounded_from_float32_in_both_passes(
    recomputes: bool, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounded: list[torch.dtype] = []
    exact = torch.Tensor.bfloat16

    def seen(matrix: torch.Tensor) -> torch.Tensor:
        rounded.append(matrix.dtype)
        return exact(matrix)

    monkeypatch.setattr(torch.Tensor, "bfloat16", seen)
    gradients: list[torch.Tensor] = []
    times: list[int] = []
    for capability in ("AVX512", "AVX2"):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda which=capability: which)
        settings = replace(SETTINGS, precision="bf16", gradient_checkpointing=recomputes)
        trainer = load_trainer(toy, settings, tmp_path / capability)
        rounded.clear()
        trainer.accumulate(random_group(seed=3))
        times.append(len(rounded))
        gradients.append(torch.cat([gradient_of(weight).flatten() for weight in trainer.policy.parameters()]))
    matrices = sum(isinstance(module, torch.nn.Linear) for module in trainer.policy.modules())
    assert times[0] == 0
    assert times[1] >= 3 * matrices, "each product has two in its backward pass"
    assert set(rounded) == {torch.float32}
    assert float(torch.cosine_similarity(*gradients, dim=0)) > 0.999


def test_a_small_step_after_passes_in_half_precision_is_not_lost(toy: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, learning_rate=1e-6, precision="bf16", weight_decay=0.0)
    trainer = load_trainer(toy, settings, tmp_path, toy)
    before = {name: weight.detach().clone() for name, weight in trainer.policy.named_parameters()}
    assert trainer.step(random_group(seed=3)).reason == ""
    for name, weight in trainer.policy.named_parameters():
        assert weight.dtype == torch.float32
        assert 0 < float((weight.detach() - before[name]).abs().max()) < 1e-5, name
    assert all(value.dtype == torch.float32 for value in optimizer_state(trainer).values())


@pytest.mark.parametrize(("fused", "device"), [(True, "meta"), (False, "cpu")])
def test_the_count_of_steps_is_restored_where_the_optimizer_reads_it(
    toy: Path, tmp_path: Path, fused: bool, device: str
) -> None:
    """`meta` stands for a card: fused AdamW refuses a count on the processor."""
    from pace_async.learn.rebuild import StepRecord

    trainer, store = trained(toy, tmp_path / "run", SETTINGS, steps=1), LearnerStore(toy, tmp_path)
    store.save_checkpoint(trainer, StepRecord(1, "digest", {}, 0.0))
    weights = [(name, weight.detach().to("meta")) for name, weight in trainer.policy.named_parameters()]
    adamw = SimpleNamespace(param_groups=[{"fused": fused}], state=dict[torch.Tensor, Any]())
    card = SimpleNamespace(policy=SimpleNamespace(named_parameters=lambda: weights), adamw=adamw)
    store.load_optimizer(cast("GroupTrainer", card), 1)
    states = list(adamw.state.values())
    assert len(states) == len(weights)
    assert {state["step"].device.type for state in states} == {device}
    assert {state["exp_avg"].device.type for state in states} == {"meta"}


def test_policy_and_version_0_are_never_scored_by_trls_own_head(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a card TRL scores by a fused head, which has to be patched into each model, and ends where it is not."""

    def called(*_: object, **__: object) -> None:
        raise AssertionError("scored by TRL")

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", called)
    trainer = trained(toy, tmp_path, SETTINGS, steps=1)
    assert trainer.reference is not None


def _nothing(*_: object, **__: object) -> None:
    """Takes the place of a trainer."""


def test_where_there_is_a_card_the_optimizer_is_fused_and_float32_is_multiplied_as_tf32(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", chosen.append)
    monkeypatch.setattr(training, "GroupTrainer", _nothing)
    monkeypatch.setattr(arguments, "GRPOConfig", SimpleNamespace)  # the real one turns to the card
    load_trainer(toy, SETTINGS, tmp_path)
    assert (arguments.arguments_of(SETTINGS, tmp_path).optim, chosen) == ("adamw_torch", [])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    load_trainer(toy, SETTINGS, tmp_path)
    assert (arguments.arguments_of(SETTINGS, tmp_path).optim, chosen) == ("adamw_torch_fused", ["high"])


def test_compilers_caches_and_nccl_reach_a_child_and_keys_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"CUDA_HOME": "/opt/cuda", "NCCL_SOCKET_IFNAME": "lo", "TRITON_CACHE_DIR": "/tmp/t", "CC": "gcc"}
    for name, value in {**given, "OPENAI_API_KEY": "secret", "XNCCL_A": "1"}.items():
        monkeypatch.setenv(name, value)
    environment = clean_environment()
    assert given.items() <= environment.items()
    assert not {"OPENAI_API_KEY", "XNCCL_A"} & environment.keys()
