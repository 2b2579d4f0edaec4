"""Where repeated training gives other weights, the learner goes on from the weights that are served, and says so."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from pace_async.errors import InfrastructureFault
from pace_async.learn import client
from pace_async.learn.client import REPLAY_DIFFERS, ProcessLearner
from pace_async.learn.lineage import Lineage
from pace_async.learn.replayed import ReplayResult, repeats
from pace_async.learn.served_type import as_served
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.store import whole_weights
from pace_async.learn.trainer import load_trainer
from pace_async.replay.group import Group
from pace_async.weights import checkpoint_digests
from tests.doubles.unsteady_learner import make_unsteady
from tests.support.learn_toys import written_groups

EXACT = TrainerConfig(learning_rate=1e-3, micro_tokens=200, checkpoint_every=100)
ROUNDED = replace(EXACT, served_type=True)
ADAPTERS = replace(EXACT, lora_rank=4, served_type=True)


@pytest.fixture(scope="module")
def half(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in bfloat16."""
    folder = tmp_path_factory.mktemp("half") / "model"
    shutil.copytree(toy, folder)
    AutoModelForCausalLM.from_pretrained(toy, dtype=torch.bfloat16).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return written_groups(tmp_path_factory.mktemp("groups"), 3)


def trained(model: Path, out: Path, groups: Sequence[Path], settings: TrainerConfig) -> Lineage:
    lineage = Lineage(model, out, settings)
    lineage.start([])
    for group in groups:
        assert lineage.train(group).reason == ""
    return lineage


def weights(lineage: Lineage) -> dict[str, torch.Tensor]:
    policy = lineage.trainer.policy
    return {name: weight.detach().clone() for name, weight in policy.named_parameters() if weight.requires_grad}


def test_a_device_that_repeats_exactly_is_distinguished_from_one_that_does_not(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = load_trainer(toy, EXACT, tmp_path)
    before = {name: weight.detach().clone() for name, weight in trainer.policy.named_parameters()}
    assert repeats(trainer)
    for name, weight in trainer.policy.named_parameters():
        assert torch.equal(weight, before[name])
        assert weight.grad is None
    exact, calls = trainer.accumulate, list[int]()

    def another_order(group: Group) -> dict[str, float]:
        result = exact(group)
        calls.append(1)
        gradient = next(weight.grad for weight in trainer.policy.parameters() if weight.grad is not None)
        gradient[0, 0] += len(calls) * 1e-6
        return result

    monkeypatch.setattr(trainer, "accumulate", another_order)
    assert not repeats(trainer)


@pytest.mark.parametrize("settings", [EXACT, ROUNDED], ids=["float32", "rounded"])
def test_an_exact_replay_keeps_every_bit_and_is_not_reported(
    half: Path, tmp_path: Path, groups: list[Path], settings: TrainerConfig
) -> None:
    straight = trained(half, tmp_path, groups[:2], settings)
    restarted = Lineage(half, tmp_path, settings)
    restarted.start(groups[:2])
    assert restarted.replayed is not None
    assert (restarted.replayed.steps, restarted.replayed.differed, restarted.replayed.exact) == (2, 0, True)
    own = weights(restarted)
    assert restarted.replayed.weights == sum(weight.numel() for weight in own.values())
    for name, weight in weights(straight).items():
        assert torch.equal(weight, own[name]), name


@pytest.mark.long
@pytest.mark.parametrize("settings", [EXACT, ROUNDED, ADAPTERS], ids=["float32", "rounded", "adapters"])
def test_after_another_replay_the_learner_holds_what_is_served(
    half: Path, tmp_path: Path, groups: list[Path], settings: TrainerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = trained(half, tmp_path, groups[:2], settings)
    masters, version = weights(first), tmp_path / "versions" / "000002"
    served = checkpoint_digests(version)
    make_unsteady(monkeypatch, 1e-3)  # enough that some weights of few round to another number, whatever is drawn
    restarted = Lineage(half, tmp_path, settings)
    assert restarted.start(groups[:2]) == version
    replayed = restarted.replayed
    assert replayed is not None
    assert replayed.differed is not None
    assert 0 < replayed.differed < replayed.weights
    assert not replayed.exact
    assert checkpoint_digests(version) == served
    adapters = settings.lora_rank is not None
    held = as_served(restarted.trainer.policy, whole_weights(restarted.trainer), half, adapters=adapters)
    for name, own in held.items():
        if name in masters:
            assert torch.equal(own, masters[name].to(own.dtype)), name
    if not settings.served_type:
        assert all(torch.equal(weight, masters[name]) for name, weight in weights(restarted).items())
    assert restarted.train(groups[2]).version == 3


def test_files_of_another_type_than_the_settings_name_cost_no_digits(
    half: Path, tmp_path: Path, groups: list[Path]
) -> None:
    first = trained(half, tmp_path, groups[:1], ROUNDED)
    restarted = Lineage(half, tmp_path, EXACT)  # as after a resume with another engine
    restarted.start(groups[:1])
    assert restarted.replayed is not None
    assert restarted.replayed.exact
    for name, weight in weights(first).items():
        assert torch.equal(weight, weights(restarted)[name]), name


def test_where_the_served_files_are_gone_the_repeated_weights_become_the_version(
    toy: Path, tmp_path: Path, groups: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(toy, tmp_path, groups[:1], EXACT)
    shutil.rmtree(tmp_path / "versions" / "000001")
    make_unsteady(monkeypatch)
    restarted = Lineage(toy, tmp_path, EXACT)
    folder = restarted.start(groups[:1])
    assert restarted.replayed == ReplayResult(steps=1, weights=0, differed=None, repeats=None)
    assert ReplayResult(1, 0, None, repeats=None).exact, "nothing shows that it was not"
    assert not ReplayResult(1, 0, None, repeats=False).exact
    assert checkpoint_digests(folder)


def test_a_start_from_a_checkpoint_repeats_nothing(toy: Path, tmp_path: Path, groups: list[Path]) -> None:
    settings = replace(EXACT, checkpoint_every=1)
    trained(toy, tmp_path, groups[:1], settings)
    restarted = Lineage(toy, tmp_path, settings)
    restarted.start(groups[:1])
    assert restarted.replayed is None


def _unsteady(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.doubles.unsteady_learner", *arguments]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.nightly
async def test_the_learner_says_once_that_it_went_on_from_the_served_weights(
    toy: Path, tmp_path: Path, groups: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(toy, tmp_path, groups[:2], EXACT)
    monkeypatch.setattr(client, "python_module", _unsteady)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    said: list[InfrastructureFault] = []

    async def note(fault: InfrastructureFault) -> None:
        assert not learner.can_send(2), "nothing is sent before the weights are those that are served"
        said.append(fault)

    async with ProcessLearner(toy, tmp_path, EXACT, groups[:2]) as learner:
        learner.tell = note
        assert await learner.ready() == tmp_path / "versions" / "000002"
        assert learner.can_send(2)
        told: Any = learner
        await told._say_replayed({"steps": 2, "weights": 5, "differed": 1, "repeats": False})
    (fault,) = said
    assert fault.kind == REPLAY_DIFFERS
    assert "2 steps were repeated to rebuild version 2" in fault.detail
    assert "goes on from the served ones" in fault.detail
