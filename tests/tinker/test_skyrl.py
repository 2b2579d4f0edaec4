"""The adapter to the `tinker` package and the trainer over it, on SkyRL's server with a toy of random weights.

The server averages where the Tinker API adds up, so `tinker.reduction` is mean here.
"""

import tarfile
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import numpy.typing as npt
import pytest

from pace_async.errors import GaveUp, InfrastructureFault
from pace_async.learn import tinker_trainer
from pace_async.learn.coefficients import coefficients
from pace_async.learn.rebuild import SAVED
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.tinker_trainer import SavedVersion, TinkerTrainer
from pace_async.providers.tinker import versions
from pace_async.providers.tinker.paid import TokenMeter, TokenPrices
from pace_async.providers.tinker.sdk import SdkService
from pace_async.providers.tinker.service import Adam, WeightedCall
from pace_async.replay.groupfile import read_digested
from tests.doubles.token_ledger import Ledger
from tests.support.learn_toys import written_groups
from tests.support.skyrl_server import TOY_VOCAB

pytestmark = pytest.mark.timeout(600)  # compilation on a busy machine
CALL = (3, 4, 5, 6)
FROZEN = Adam(learning_rate=0.0, betas=(0.9, 0.98), weight_decay=0.0, max_grad_norm=1.0)


async def test_a_group_is_one_step_is_adopted_by_name_and_a_snapshot_keeps_its_weights(
    service: SdkService, tmp_path: Path
) -> None:
    ledger = Ledger()
    meter = TokenMeter(ledger, "tinker:toy", TokenPrices(1e-6, 1e-6, 1e-6))
    settings, groups = TrainerConfig(lora_rank=8, learning_rate=1e-2), written_groups(tmp_path, 2, vocab=TOY_VOCAB)
    trainer = TinkerTrainer(service, tmp_path / "out", settings, meter)
    given = SavedVersion.read(await trainer.ready())
    assert given is not None
    before = await (await service.sampler(given.saved.snapshot)).sample(CALL, max_tokens=8, seed=3, stop_ids=[1])

    first = await trainer.train(groups[0])
    assert first.weights is not None
    assert (first.version, first.metrics["masked_fraction"]) == (1, 0.0)
    assert first.metrics["grad_norm"] > 0
    kept = await (await service.sampler(given.saved.snapshot)).sample(CALL, max_tokens=8, seed=3, stop_ids=[1])
    assert kept == before

    made = SavedVersion.read(first.weights)
    assert made is not None
    sampler = await service.sampler(made.saved.snapshot)
    answer = await sampler.sample(CALL, max_tokens=8, seed=3, stop_ids=[1])
    again = await service.begin(8, made.saved.state)
    [own] = await again.logprobs([(CALL, answer.token_ids)])
    assert own == pytest.approx(answer.logprobs, abs=1e-4)
    [old] = await (await service.begin(8, given.saved.state)).logprobs([(CALL, answer.token_ids)])
    assert np.abs(np.array(old) - np.array(own)).max() > 1e-3

    (first.weights / SAVED).unlink()
    adopted = await TinkerTrainer(service, tmp_path / "out", settings, meter).train(groups[0])
    found = SavedVersion.read(first.weights)
    assert adopted.version == 1
    assert found is not None
    assert (found.saved.state, len(ledger.calls)) == (made.saved.state, 1)
    same = await service.sampler(found.saved.snapshot)  # its address is written in two ways
    assert await same.sample(CALL, max_tokens=8, seed=3, stop_ids=[1]) == answer


async def test_the_gradient_is_the_sum_over_tokens_whatever_the_number_and_the_lengths_of_calls(
    service: SdkService,
) -> None:
    answer, slope = (7, 8, 9, 10, 11, 12), 0.25
    run = await service.begin(8)
    [logprobs] = await run.logprobs([(CALL, answer)])

    async def norm(length: int, copies: int) -> float:
        slopes = (slope, *[0.0] * (length - 1))
        await run.add_gradient([WeightedCall(CALL, answer[:length], logprobs[:length], slopes)] * copies)
        return (await run.step(FROZEN))["skyrl.ai/grad_norm"]

    one = await norm(1, 1)
    assert one > 0
    assert await norm(6, 1) == pytest.approx(one, rel=1e-3)
    assert await norm(1, 3) == pytest.approx(3 * one, rel=1e-3)


async def test_what_the_server_refuses_is_one_fault(service: SdkService) -> None:
    assert await service.saved("model_none", "pace-v1") is None
    with pytest.raises(InfrastructureFault, match="service_"):
        await service.begin(8, "tinker://model_none/weights/pace-v1")


async def test_a_newer_package_than_the_server_understands_is_refused_by_name(
    service: SdkService, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with httpx.AsyncClient() as http:
        await versions.refuse_unless_understood(http, url, "any")
        monkeypatch.setattr(versions, "installed", lambda: "0.25.0")
        with pytest.raises(GaveUp, match=r"the package tinker 0.25.0 sends protobuf, .* takes JSON, .*tinker==0.24.1"):
            await versions.refuse_unless_understood(http, url, "any")


ALPHA = 32
"""The scale of an adapter is this number over its rank, at SkyRL."""


def adapter_of(saved: Path, version: Path | None) -> dict[str, npt.NDArray[np.float32]]:
    """The tensors of a version's adapter, by the name of the layer and lora_A or lora_B."""
    from safetensors.numpy import load

    made = None if version is None else SavedVersion.read(version)
    assert made is not None
    run, *_, name = made.saved.snapshot.removeprefix("tinker://").split("/")
    with tarfile.open(saved / run / "sampler_weights" / f"{name}.tar.gz") as archive:
        [file] = [member for member in archive if member.name.endswith("adapter_model.safetensors")]
        tensors = archive.extractfile(file)
        assert tensors is not None
        return load(tensors.read())


async def test_one_step_is_the_gradient_of_our_loss_where_adams_epsilon_is_far_above_it(
    service: SdkService, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With rate ε, AdamW's first step is minus the gradient, which the saved adapter holds. A new adapter's B is zero,
    so its gradient is that of the whole weight times A's transpose, and A has none."""
    import torch
    from transformers import AutoModelForCausalLM

    epsilon = 1e5
    monkeypatch.setattr(tinker_trainer, "Adam", partial(Adam, eps=epsilon))
    settings = TrainerConfig(lora_rank=8, learning_rate=epsilon, weight_decay=0.0, warmup=0)
    [path] = written_groups(tmp_path, 1, vocab=TOY_VOCAB)
    trainer = TinkerTrainer(service, tmp_path / "out", settings, TokenMeter(Ledger(), "tinker:toy", TokenPrices()))
    before = adapter_of(toy.parent / "saved", await trainer.ready())
    after = adapter_of(toy.parent / "saved", (await trainer.train(path)).weights)

    model: Any = cast("Any", AutoModelForCausalLM).from_pretrained(toy, dtype=torch.float32)
    group, _ = read_digested(path)
    calls = [call for rollout in group.rollouts for call in rollout.calls]
    scored: list[Any] = []
    for call in calls:
        logits = model(torch.tensor([[*call.prompt_ids, *call.completion_ids]])).logits[
            0, len(call.prompt_ids) - 1 : -1
        ]
        scored.append(logits.log_softmax(-1)[range(len(call.completion_ids)), call.completion_ids])
    slopes = coefficients(group, [values.tolist() for values in scored], settings).calls
    for slope, values in zip(slopes, scored, strict=True):
        (-(torch.tensor(slope, dtype=torch.float32) * values).sum()).backward()

    weights = dict(model.named_parameters())
    layers = [name.removesuffix(".lora_A.weight") for name in before if name.endswith(".lora_A.weight")]
    assert len(layers) == 7  # of attention and MLP
    for layer in layers:
        first, second = before[f"{layer}.lora_A.weight"], after[f"{layer}.lora_B.weight"]
        assert (after[f"{layer}.lora_A.weight"] == first).all()
        whole = weights[f"{layer.removeprefix('base_model.model.')}.weight"].grad.numpy()
        wanted = -ALPHA / 8 * whole @ first.T
        assert np.linalg.norm(wanted) > 1e-3
        assert np.linalg.norm(second - wanted) < 1e-4 * np.linalg.norm(wanted), layer
