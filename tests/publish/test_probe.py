"""The probe after a push sees gross error, whatever the model would answer to its question."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.managed import EngineHandle, managed_engine
from pace_async.publish import probe
from pace_async.publish.base import PushFailed
from pace_async.runtime.children.replica import Delivery, Probing, Replica
from tests.support.engine_models import END, plain_logprobs, save_tiny_model
from tests.support.tensor_files import load_file, save_file

pytestmark = pytest.mark.anyio

CERTAIN = 1000.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def ends_at_once(folder: Path, seed: int) -> Path:
    """A model that is certain of ending after the last token of the probe's question, and of nothing after that."""
    save_tiny_model(folder, seed=seed)
    tensors = load_file(folder / "model.safetensors")
    last = ord(probe.TEXT[-1])
    tensors["model.embed_tokens.weight"][last] = 0
    tensors["model.embed_tokens.weight"][last, 5] = CERTAIN
    tensors["lm_head.weight"][:, 5] = 0
    tensors["lm_head.weight"][END] = 0
    tensors["lm_head.weight"][END, 5] = CERTAIN
    save_file(tensors, folder / "model.safetensors")
    return folder


class Judge:
    """A `Scorer` that holds the weights of one directory, whatever the version."""

    def __init__(self, model: Path) -> None:
        self.model = model

    async def logprobs(
        self, version: int, prompt_ids: tuple[int, ...], completion_ids: tuple[int, ...]
    ) -> tuple[float, ...]:
        return tuple(plain_logprobs(self.model, prompt_ids, completion_ids, 1.0))


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    return [ends_at_once(tmp_path / str(seed), seed) for seed in range(2)]


@pytest.fixture
async def handle(models: list[Path], tmp_path: Path) -> AsyncIterator[EngineHandle]:
    async with managed_engine(models[0], log=tmp_path / "engine.log") as handle:
        yield handle


@pytest.mark.fault("Weights", "the alarm for weights grossly wrong")
async def test_a_model_that_is_certain_to_end_at_once_is_probed_too(handle: EngineHandle, models: list[Path]) -> None:
    async with HttpEngine(handle.url) as engine:
        answer = await engine.generate(await engine.encode(probe.TEXT), max_tokens=64, temperature=1.0, seed=0)
        assert (answer.token_ids, answer.logprobs) == ((END,), (0.0,))
    judge = Judge(models[1])
    async with Replica(handle.url, probing=Probing(judge), delivery=Delivery(numbered=True)) as replica:
        receipt = await replica.publish(1, models[1])
        assert receipt.k3 is not None
        assert 0 < receipt.k3 < 1e-6
        judge.model = models[0]
        with pytest.raises(PushFailed, match="probe_failed"):
            await replica.publish(2, models[1])
