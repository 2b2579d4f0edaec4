"""The probe after a push sees gross error, whatever the model answers to its question."""

import math
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.wire import SamplingParams
from pace_async.errors import InfrastructureFault
from pace_async.publish import probe
from pace_async.publish.base import PushFailed
from pace_async.runtime.children.replica import Delivery, Probing, Replica
from tests.doubles.engine_servers import EngineServer
from tests.support.engine_models import END, plain_logprobs, save_tiny_model
from tests.support.tensor_files import load_file, save_file

CERTAIN = 1000.0


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
    """A `Scorer` that holds the weights of one directory, whatever the version. `off` probes are far from the truth."""

    def __init__(self, model: Path, off: int = 0) -> None:
        self.model = model
        self.off = off
        self.asked: list[tuple[int, ...]] = []

    async def logprobs(
        self, version: int, prompt_ids: tuple[int, ...], completion_ids: tuple[int, ...]
    ) -> tuple[float, ...]:
        self.asked.append(completion_ids)
        far = 1.0 if len(self.asked) <= self.off else 0.0
        return tuple(logprob - far for logprob in plain_logprobs(self.model, prompt_ids, completion_ids, 1.0))


class Shifted(Judge):
    """A scorer whose log-probabilities are `shift` above the engine's. None: it cannot score now."""

    shift: float | None = 0.0

    async def logprobs(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, version: int, prompt_ids: tuple[int, ...], completion_ids: tuple[int, ...]
    ) -> tuple[float, ...] | None:
        if self.shift is None:
            return None
        return tuple(one + self.shift for one in await super().logprobs(version, prompt_ids, completion_ids))


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    return [ends_at_once(tmp_path / str(seed), seed) for seed in range(2)]


@contextmanager
def serving(model: Path) -> Generator[str]:
    """The URL of an engine with these weights."""
    server = EngineServer(model, frozenset({END}))
    try:
        yield server.url
    finally:
        server.kill()


@pytest.fixture
def url(models: list[Path]) -> Iterator[str]:
    with serving(models[0]) as url:
        yield url


@pytest.mark.long
@pytest.mark.fault("Weights", "the alarm for weights grossly wrong")
async def test_a_model_that_is_certain_to_end_at_once_is_probed_too(url: str, models: list[Path]) -> None:
    async with HttpEngine(url) as engine:
        answer = await engine.sample(await engine.encode(probe.TEXT), SamplingParams(max_tokens=64, seed=0))
        assert (answer.token_ids, answer.logprobs) == ((END,), (0.0,))
    judge = Judge(models[1])
    async with Replica(url, probing=Probing(judge), delivery=Delivery(numbered=True)) as replica:
        receipt = await replica.publish(1, models[1])
        assert receipt.k3 is not None
        assert 0 < receipt.k3 < 1e-6
        judge.model = models[0]
        with pytest.raises(PushFailed, match="probe_failed"):
            await replica.publish(2, models[1])


@pytest.mark.long
@pytest.mark.parametrize(("off", "proven"), [(1, True), (2, False)])
async def test_a_probe_above_the_limit_is_repeated_with_another_sample(tmp_path: Path, off: int, proven: bool) -> None:
    model = save_tiny_model(tmp_path / "model", seed=3)
    judge = Judge(model, off)
    with serving(model) as url:
        async with Replica(url, probing=Probing(judge), delivery=Delivery(numbered=True)) as replica:
            if proven:
                receipt = await replica.publish(1, model)
                assert receipt.k3 is not None
                assert receipt.k3 < 1e-6
            else:
                with pytest.raises(PushFailed, match=r"k3 0\.368 and 0\.368 on a fixed prompt"):
                    await replica.publish(1, model)
            assert len(judge.asked) == 2
            assert judge.asked[0] != judge.asked[1]


def test_a_limit_lies_above_what_was_measured_and_below_other_weights() -> None:
    assert probe.limit_of([1e-9, 2e-9, 0.0]) == probe.LEAST
    assert probe.limit_of([1.0e-3, 1.2e-3, 1.5e-3]) == pytest.approx(6e-3)
    assert probe.limit_of([1.0e-3, 1.2e-3, 3.9e-3]) == probe.GROSS
    assert probe.limit_of([1.0e-3, 1.2e-3, 0.5]) == probe.GROSS, "one strange sample is not other weights"
    for gross in ([2e-2, 3e-2, 1e-4], [math.inf, math.inf, 0.0], [math.inf] * 3):
        assert probe.limit_of(gross) is None


@pytest.mark.long
async def test_the_first_push_measures_the_limit_and_later_ones_keep_it(url: str, models: list[Path]) -> None:
    judge = Shifted(models[1])
    said: list[InfrastructureFault] = []

    async def note(fault: InfrastructureFault) -> None:
        said.append(fault)

    probing = Probing(judge, limit=None, tell=note)
    async with Replica(url, probing=probing, delivery=Delivery(numbered=True)) as replica:
        judge.shift = None
        receipt = await replica.publish(1, models[1])
        assert (receipt.k3, said) == (None, []), "the learner was away, so nothing was measured"
        judge.shift = 2.0
        with pytest.raises(PushFailed, match=r"k3 .* on fixed prompts, above 0\.01"):
            await replica.publish(1, models[1])
        judge.shift = 0.05
        k3 = math.expm1(0.05) - 0.05
        receipt = await replica.publish(1, models[1])
        assert receipt.k3 == pytest.approx(k3, rel=0.01)
        (fault,) = said
        assert (fault.kind, f"pushes fail above {4 * k3:.3g}" in fault.detail) == ("probe_limit", True)
        judge.shift = 0.08
        await replica.publish(2, models[1])
        judge.shift = 0.15
        with pytest.raises(PushFailed, match="probe_failed"):
            await replica.publish(3, models[1])
        assert len(said) == 1
