"""The adapter to the `tinker` package and the trainer over it, on SkyRL's server with a toy of random weights.

The server averages where the Tinker API adds up, so `tinker.reduction` is mean here. What it compiles at a call's first
length takes most of the time, so all tests share one server.
"""

import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from importlib.util import find_spec
from pathlib import Path

import anyio
import httpx
import numpy as np
import pytest

from pace_async.config import TinkerConfig
from pace_async.errors import GaveUp, InfrastructureFault
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.tinker_trainer import VERSION, SavedVersion, TinkerTrainer
from pace_async.providers.tinker import versions
from pace_async.providers.tinker.paid import TokenMeter, TokenPrices
from pace_async.providers.tinker.sdk import SdkService, open_service
from pace_async.providers.tinker.service import Adam, WeightedCall
from tests.doubles.token_ledger import Ledger
from tests.support.learn_toys import written_groups

HERE = find_spec("tinker") is not None and find_spec("skyrl") is not None
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(600),  # compilation on a busy machine
    pytest.mark.skipif(not HERE and "PACE_NEEDS_TINKER" not in os.environ, reason="make test-tinker"),
]
VOCAB = 200
CALL = (3, 4, 5, 6)
FROZEN = Adam(learning_rate=0.0, betas=(0.9, 0.98), weight_decay=0.0, max_grad_norm=1.0)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from scripts.benchmarks.toys import write_llama

    return write_llama(tmp_path_factory.mktemp("toy") / "model", vocab=VOCAB, width=32, layers=1)


@pytest.fixture(scope="session")
def url(toy: Path) -> Generator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    folder = toy.parent
    command = [
        *(sys.executable, str(Path(__file__).with_name("start_skyrl.py")), "--base-model", str(toy)),
        *("--backend", "jax", "--backend-config", '{"max_lora_adapters": 16, "max_lora_rank": 8}'),
        *("--checkpoints-base", str(folder / "saved"), "--database-url", f"sqlite:///{folder}/server.db"),
        *("127.0.0.1", port),
    ]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, 15)
            server.wait(60)


@pytest.fixture(scope="session")
async def service(url: str, toy: Path) -> AsyncGenerator[SdkService]:
    async with httpx.AsyncClient() as http:
        with anyio.fail_after(300):
            while True:
                try:
                    await http.get(f"{url}/api/v1/healthz")
                    break
                except httpx.HTTPError:
                    await anyio.sleep(0.5)
    async with open_service(TinkerConfig(url=url, reduction="mean"), str(toy), 500.0) as opened:
        yield opened


async def test_a_group_is_one_step_is_adopted_by_name_and_a_snapshot_keeps_its_weights(
    service: SdkService, tmp_path: Path
) -> None:
    ledger = Ledger()
    meter = TokenMeter(ledger, "tinker:toy", TokenPrices(1e-6, 1e-6, 1e-6))
    settings, groups = TrainerConfig(lora_rank=8, learning_rate=1e-2), written_groups(tmp_path, 2, vocab=VOCAB)
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

    (first.weights / VERSION).unlink()
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
