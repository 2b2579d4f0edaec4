"""The trainer whose weights are with a service, on a service in this process."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from pace_async.errors import BudgetReached, GaveUp, InfrastructureFault, PaceBug
from pace_async.learn.base import GROUP_UNREADABLE, RESTORED
from pace_async.learn.coefficients import coefficients
from pace_async.learn.rebuild import SAVED
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.tinker_trainer import SavedVersion, TinkerTrainer
from pace_async.providers.tinker.paid import TokenMeter, TokenPrices
from pace_async.replay.groupfile import group_path, read_digested, write_group
from tests.doubles.simulated_service import SimulatedRun, SimulatedService
from tests.doubles.token_ledger import Ledger
from tests.support.learn_toys import VOCAB, random_group, written_groups

SETTINGS = TrainerConfig(lora_rank=8, learning_rate=1e-2, warmup=4)


def service_with(*fails: tuple[str, int]) -> SimulatedService:
    return SimulatedService(np.random.default_rng(0).standard_normal(VOCAB), frozenset(fails))


def trainer_of(service: SimulatedService, out: Path, versions: int = 0, ledger: Ledger | None = None) -> TinkerTrainer:
    meter = TokenMeter(ledger or Ledger(), "tinker:toy", TokenPrices(1e-6, 2e-6, 3e-6))
    return TinkerTrainer(service, out, SETTINGS, meter, versions=versions)


async def trained(trainer: TinkerTrainer, groups: Sequence[Path]) -> list[Path]:
    """The versions' folders. A group is passed again after each fault, as the runtime does it."""
    folders: list[Path] = []
    for group in groups:
        while True:
            try:
                step = await trainer.train(group)
                break
            except InfrastructureFault:
                continue
        assert step.weights is not None
        folders.append(step.weights)
    return folders


def logits_of(service: SimulatedService, folder: Path) -> list[float]:
    found = SavedVersion.read(folder)
    assert found is not None
    assert (service.states[found.saved.snapshot].logits == service.states[found.saved.state].logits).all()
    return service.states[found.saved.state].logits.tolist()


async def test_a_step_is_that_of_adamw_in_torch_on_the_gradient_of_our_loss(tmp_path: Path) -> None:
    service, groups = service_with(), written_groups(tmp_path, 3)
    folders = await trained(trainer_of(service, tmp_path / "out"), groups)

    logits = torch.nn.Parameter(torch.tensor(service.logits))
    adamw = torch.optim.AdamW([logits], lr=SETTINGS.learning_rate, betas=SETTINGS.betas, weight_decay=0.1)
    for number, path in enumerate(groups, start=1):
        group, _ = read_digested(path)
        calls = [call for rollout in group.rollouts for call in rollout.calls]
        logprobs = logits.log_softmax(0)
        values = [logprobs[list(call.completion_ids)] for call in calls]
        slopes = coefficients(group, [cast("Any", value).tolist() for value in values], SETTINGS).calls
        adamw.zero_grad()
        loss = -sum((torch.tensor(slope) * value).sum() for slope, value in zip(slopes, values, strict=True))
        assert isinstance(loss, torch.Tensor)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([logits], SETTINGS.max_grad_norm)
        adamw.param_groups[0]["lr"] = SETTINGS.learning_rate * min(1.0, number / SETTINGS.warmup)
        adamw.step()
        assert logits_of(service, folders[number - 1]) == pytest.approx(cast("Any", logits).tolist(), rel=1e-9)


async def test_a_group_is_trained_once_and_an_unreadable_one_never(tmp_path: Path) -> None:
    service, (first, second) = service_with(), written_groups(tmp_path, 2)
    trainer = trainer_of(service, tmp_path / "out")
    step = await trainer.train(first)
    again = await trainer.train(first)
    assert (again.update, again.version, again.digest, again.weights) == (0, 1, step.digest, step.weights)
    assert service.calls["step"] == 1

    written = second.read_bytes()
    second.write_bytes(written[: len(written) // 2])
    with pytest.raises(InfrastructureFault) as fault:
        await trainer.train(second)
    assert fault.value.kind == GROUP_UNREADABLE
    second.write_bytes(written)
    assert (await trainer.train(second)).version == 2
    late = write_group(group_path(tmp_path, 9), random_group(update=7, number=9))
    assert late
    with pytest.raises(PaceBug):
        await trainer.train(group_path(tmp_path, 9))


@pytest.mark.parametrize("stage", ["begin", "logprobs", "add_gradient", "step", "save"])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_whatever_call_fails_every_version_is_one_step_from_the_one_before(
    stage: str, number: int, tmp_path: Path
) -> None:
    groups = written_groups(tmp_path, 3)
    sound, broken = service_with(), service_with((stage, number))
    wanted = await trained(trainer_of(sound, tmp_path / "sound"), groups)
    found = await trained(trainer_of(broken, tmp_path / "broken"), groups)
    for one, other in zip(found, wanted, strict=True):
        assert logits_of(broken, one) == logits_of(sound, other)


async def test_after_a_crash_a_complete_name_is_adopted_and_else_the_last_state_is_stepped_again(
    tmp_path: Path,
) -> None:
    groups, out = written_groups(tmp_path, 2), tmp_path / "out"
    service, ledger = service_with(), Ledger()
    _, folder = await trained(trainer_of(service, out, ledger=ledger), groups)
    wanted = logits_of(service, folder)
    (folder / SAVED).unlink()  # the crash came between the service's answer and the disk

    adopted = await trainer_of(service, out, versions=1, ledger=ledger).train(groups[1])
    assert (adopted.version, service.calls["step"], len(ledger.calls)) == (2, 2, 2)
    assert logits_of(service, folder) == wanted

    (folder / SAVED).unlink()
    for address in [address for address in service.states if "pace-v2" in address]:
        del service.states[address]
    again = await trainer_of(service, out, versions=1, ledger=ledger).train(groups[1])
    assert (again.version, service.calls["step"], len(ledger.calls)) == (2, 3, 3)
    assert logits_of(service, folder) == wanted


async def test_a_restored_version_has_its_weights_and_its_optimizer(tmp_path: Path) -> None:
    service, groups = service_with(), written_groups(tmp_path, 2)
    trainer = trainer_of(service, tmp_path / "out")
    first, _ = await trained(trainer, groups)
    back = group_path(tmp_path, 3)
    write_group(back, replace(random_group(update=2, number=3), restores=1))
    step = await trainer.train(back)
    assert (step.version, step.metrics) == (3, {RESTORED: 1.0})
    assert step.weights is not None
    assert logits_of(service, step.weights) == logits_of(service, first)
    restored, good = SavedVersion.read(step.weights), SavedVersion.read(first)
    assert restored is not None
    assert good is not None
    assert (restored.steps, service.states[restored.saved.state].steps) == (good.steps, 1)


async def test_tokens_are_paid_and_a_step_that_does_not_fit_is_not_taken(tmp_path: Path) -> None:
    service, ledger, groups = service_with(), Ledger(), written_groups(tmp_path, 2)
    trainer = trainer_of(service, tmp_path / "out", ledger=ledger)
    await trainer.train(groups[0])
    group, _ = read_digested(groups[0])
    tokens = sum(len(c.prompt_ids) + len(c.completion_ids) for rollout in group.rollouts for c in rollout.calls)
    [call] = ledger.calls
    assert (call.prompt_tokens, call.completion_tokens, call.lease) == (tokens, tokens, max(group.leases))
    assert call.cost_usd == pytest.approx(2 * tokens * 3e-6)
    ledger.usd = 1e-6
    with pytest.raises(BudgetReached):
        await trainer.train(groups[1])
    assert service.calls["step"] == 1


async def test_a_group_that_teaches_nothing_makes_no_version_and_a_lost_version_is_told(tmp_path: Path) -> None:
    service, out, (first,) = service_with(), tmp_path / "out", written_groups(tmp_path, 1)
    group, _ = read_digested(first)
    flat = replace(group, rollouts=tuple(replace(rollout, advantage=0.0) for rollout in group.rollouts))
    write_group(first, flat)
    step = await trainer_of(service, out).train(first)
    assert (step.version, step.weights, step.reason) == (0, None, "every advantage is 0")
    with pytest.raises(GaveUp, match="version 4 is not known"):
        await trainer_of(service, out, versions=4).ready()


async def test_a_step_whose_gradient_is_not_finite_makes_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def step(*_: object) -> dict[str, float]:
        return {"service/grad_norm": float("nan")}

    monkeypatch.setattr(SimulatedRun, "step", step)
    service, out, (first,) = service_with(), tmp_path / "out", written_groups(tmp_path, 1)
    with pytest.raises(InfrastructureFault, match="bad_answer: the service's step had a gradient that is not finite"):
        await trainer_of(service, out).train(first)
    assert (service.calls["save"], SavedVersion.read(out / "versions" / "000001")) == (1, None)
