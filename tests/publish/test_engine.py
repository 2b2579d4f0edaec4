"""Publishing to a real engine: proven, labelled, and served from the next token on."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import httpx
import pytest
import torch

from pace_async.advise.base import Completion
from pace_async.advise.client import HttpEngine
from pace_async.events import TokenSpan
from pace_async.publish.base import PushFailed
from pace_async.publish.file import FilePublisher
from pace_async.weights import COMPLETE, checkpoint_digests
from tests.doubles.engine_servers import EngineServer
from tests.support.engine_models import plain_logprobs, save_tiny_model
from tests.support.tensor_files import load_file, save_file

PROMPT = tuple(range(70, 100))


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("versions")
    return [save_tiny_model(folder / str(seed), seed=seed) for seed in range(3)]


@pytest.fixture(scope="module")
def server(versions: list[Path]) -> Iterator[EngineServer]:
    server = EngineServer(versions[0])
    yield server
    server.kill()


@pytest.fixture
async def engine(server: EngineServer) -> AsyncIterator[HttpEngine]:
    async with HttpEngine(server.url, timeout_s=60.0) as engine:
        yield engine


@pytest.fixture
async def publisher(server: EngineServer) -> AsyncIterator[FilePublisher]:
    async with FilePublisher(server.url) as publisher:
        yield publisher


def spoiled(source: Path, target: Path, name: str, tensor: torch.Tensor | None) -> Path:
    """A complete checkpoint like `source`, with one tensor replaced or (None) left out."""
    tensors = load_file(source / "model.safetensors")
    if tensor is None:
        del tensors[name]
    else:
        tensors[name] = tensor
    target.mkdir()
    save_file(tensors, target / "model.safetensors")
    (target / COMPLETE).touch()
    return target


async def test_a_push_is_proven_by_a_receipt_and_served_from_then_on(
    engine: HttpEngine, publisher: FilePublisher, versions: list[Path]
) -> None:
    for version in (1, 2, 1):
        receipt = await publisher.publish(version, versions[version])
        assert receipt.digests == checkpoint_digests(versions[version])
        assert receipt.version == version
        assert 0 < receipt.paused_seconds <= receipt.seconds
        assert await engine.served_version() == version
        answer = await engine.generate(PROMPT, max_tokens=40, temperature=1.0, seed=version)
        assert answer.spans == (TokenSpan(version, 0, 40),)
        expected = plain_logprobs(versions[version], PROMPT, answer.token_ids, 1.0)
        assert answer.logprobs == pytest.approx(expected, abs=1e-4)


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.fault("Advisor and engine", "weights change within an answer")
async def test_a_request_that_spans_pushes_bears_each_version_and_its_probabilities(
    engine: HttpEngine, publisher: FilePublisher, versions: list[Path]
) -> None:
    await publisher.publish(0, versions[0])
    answers: dict[int, Completion] = {}
    pushed = 0

    async def ask(first: int) -> None:
        """Until an answer spans pushes: on a busy machine one may end before the next push begins."""
        seed = first
        while not any(len(answer.spans) > 1 for answer in answers.values()):
            answers[seed] = await engine.generate(PROMPT[first:], max_tokens=600, temperature=1.0, seed=seed)
            seed += 3

    async def ask_all() -> None:
        async with anyio.create_task_group() as tasks:
            for first in range(3):
                tasks.start_soon(ask, first)
        ended.set()

    ended = anyio.Event()
    with anyio.fail_after(100.0):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_all)
            while not ended.is_set():
                await engine.generate(PROMPT, max_tokens=60, temperature=1.0, seed=9)  # the others go on meanwhile
                pushed += 1
                await publisher.publish(pushed, versions[pushed % 3])
    for seed, answer in answers.items():
        assert len(answer.token_ids) == 600
        assert list(answer.spans) == sorted(answer.spans, key=lambda span: span.version)
        for span in answer.spans:
            expected = plain_logprobs(versions[span.version % 3], PROMPT[seed % 3 :], answer.token_ids, 1.0)
            assert answer.logprobs[span.start : span.end] == pytest.approx(expected[span.start : span.end], abs=1e-4)


@pytest.mark.fault("Weights", "a push that fails after the transfer has begun")
@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("model.norm.weight", None),
        ("model.norm.weight", torch.ones(63)),
        ("model.layers.9.mlp.up_proj.weight", torch.ones(2)),
    ],
)
async def test_a_checkpoint_that_does_not_fit_is_not_served_and_a_good_one_is_afterwards(
    server: EngineServer,
    engine: HttpEngine,
    publisher: FilePublisher,
    versions: list[Path],
    tmp_path: Path,
    name: str,
    tensor: torch.Tensor | None,
) -> None:
    await publisher.publish(1, versions[1])
    bad = spoiled(versions[2], tmp_path / "bad", name, tensor)
    with pytest.raises(PushFailed) as caught:
        await publisher.publish(2, bad)
    assert (caught.value.kind, caught.value.began) == ("push_refused", True)
    assert name in caught.value.detail
    assert await engine.served_version() is None

    answers: list[Completion] = []

    async def ask() -> None:
        answers.append(await engine.generate(PROMPT, max_tokens=20, temperature=1.0, seed=7))

    async with (
        httpx.AsyncClient(base_url=server.url, timeout=60.0) as http,
        anyio.create_task_group() as tasks,
    ):
        assert (await http.post("/resume")).status_code == 409
        assert (await http.post("/finish_weight_update", json={"weight_version": "2"})).status_code == 409
        assert (await http.get("/is_paused")).json() == {"is_paused": True}
        tasks.start_soon(ask)
        with anyio.fail_after(60.0):
            while (await http.get("/load")).json()["server_load"] < 1:
                pass
        assert answers == []
        await publisher.publish(1, versions[1])
    assert answers[0].spans == (TokenSpan(1, 0, 20),)
    expected = plain_logprobs(versions[1], PROMPT, answers[0].token_ids, 1.0)
    assert answers[0].logprobs == pytest.approx(expected, abs=1e-4)


@pytest.mark.fault("Weights", "numbers that are not finite are never published")
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
async def test_numbers_that_are_not_finite_never_leave_the_publisher(
    engine: HttpEngine, publisher: FilePublisher, versions: list[Path], tmp_path: Path, value: float
) -> None:
    await publisher.publish(1, versions[1])
    weight = torch.ones(64)
    weight[17] = value
    bad = spoiled(versions[2], tmp_path / "bad", "model.norm.weight", weight)
    with pytest.raises(PushFailed, match=r"not_finite.*model\.norm\.weight") as caught:
        await publisher.publish(2, bad)
    assert not caught.value.began
    assert await engine.served_version() == 1
    assert (await engine.generate(PROMPT, max_tokens=5, temperature=1.0, seed=0)).spans == (TokenSpan(1, 0, 5),)


@pytest.mark.fault("Weights", "numbers that are not finite are never published")
async def test_the_engine_itself_refuses_numbers_that_are_not_finite(
    server: EngineServer, publisher: FilePublisher, versions: list[Path], tmp_path: Path
) -> None:
    bad = spoiled(versions[2], tmp_path / "bad", "model.norm.weight", torch.full((64,), float("nan")))
    async with httpx.AsyncClient(base_url=server.url, timeout=60.0) as http:
        assert (await http.post("/start_weight_update")).status_code == 409
        assert (await http.post("/pause?mode=keep&clear_cache=true")).status_code == 200
        assert (await http.post("/update_weights", json={"update_info": {"path": str(bad)}})).status_code == 409
        assert (await http.post("/start_weight_update")).status_code == 200
        answer = await http.post("/update_weights", json={"update_info": {"path": str(bad)}})
        assert answer.status_code == 400
        assert "not finite" in answer.json()["error"]["message"]
        assert (await http.post("/collective_rpc", json={"method": "weight_receipt"})).status_code == 409
        assert (await http.get("/weight_info")).json() == {"weight_version": "unknown"}
    await publisher.publish(1, versions[1])


async def test_an_update_that_was_abandoned_half_way_can_be_begun_again(
    server: EngineServer, engine: HttpEngine, publisher: FilePublisher, versions: list[Path]
) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=60.0) as http:
        await http.post("/pause?mode=keep&clear_cache=true")
        await http.post("/start_weight_update")
        await http.post("/update_weights", json={"update_info": {"path": str(versions[2])}})
    assert await engine.served_version() is None
    await publisher.publish(2, versions[2])
    assert await engine.served_version() == 2


@pytest.mark.fault("Weights", "a directory half written")
async def test_a_directory_that_was_not_written_to_its_end_is_refused(
    engine: HttpEngine, publisher: FilePublisher, versions: list[Path], tmp_path: Path
) -> None:
    await publisher.publish(1, versions[1])
    half = spoiled(versions[2], tmp_path / "half", "model.norm.weight", torch.ones(64))
    (half / COMPLETE).unlink()
    torn = spoiled(versions[2], tmp_path / "torn", "model.norm.weight", torch.ones(64))
    file = torn / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / COMPLETE).touch()
    for folder in (half, torn, empty, tmp_path / "absent"):
        with pytest.raises(PushFailed) as caught:
            await publisher.publish(2, folder)
        assert (caught.value.kind, caught.value.began) == ("incomplete_checkpoint", False)
    assert await engine.served_version() == 1
