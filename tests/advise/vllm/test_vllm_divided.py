"""A real vLLM server that is divided among two ranks: versions are whole only by the slices of both."""

import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.served_copy import serve_from
from pace_async.advise.engines.vllm_found import Build, find_vllm
from pace_async.advise.engines.vllm_managed import VllmHandle, VllmSettings, managed_vllm
from pace_async.publish.base import PushFailed
from pace_async.publish.file import FilePublisher
from pace_async.runtime.children.advisor_folder import TINY
from pace_async.weights import checkpoint_digests, record_digests
from tests.support.engine_models import plain_logprobs
from tests.support.noisy_versions import version_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.needs_vllm,
    pytest.mark.timeout(1800),  # of which a start beside heavy load takes most
]

NOISE = 2e-4
"""Nats between two float32 engines that add in another order."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("versions")
    return [version_of(folder / str(seed), seed) for seed in range(3)]


@dataclass
class Server:
    """A server of two ranks, its client and its publisher."""

    handle: VllmHandle
    engine: HttpEngine
    publisher: FilePublisher


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("vllm")
    build = find_vllm()
    assert isinstance(build, Build)
    model = serve_from(TINY, folder / "model")
    settings = VllmSettings(
        kv_cache_gib=0.25 if build.device == "cpu" else None,
        gpu_memory=0.3,
        gpus=("0", "1"),
    )
    async with (
        managed_vllm(build, model, settings, log=folder / "engine.log", start_s=1500.0) as handle,
        HttpEngine(handle.url, timeout_s=600.0) as engine,
        FilePublisher(handle.url, phase_s=300.0) as publisher,
    ):
        yield Server(handle, engine, publisher)


async def refuse_unless_serves(server: Server, version: int, weights: Path) -> None:
    """Fail unless a new answer carries the version and has the log-probabilities of the weights."""
    prompt = await server.engine.encode("The best idea so far")
    answer = await server.engine.generate(prompt, max_tokens=40, temperature=1.0, seed=version)
    assert [(span.version, span.start, span.end) for span in answer.spans] == [(version, 0, 40)]
    assert answer.logprobs == pytest.approx(plain_logprobs(weights, prompt, answer.token_ids, 1.0), abs=NOISE)


async def test_a_version_is_proven_by_the_slices_of_both_ranks_and_served(server: Server, versions: list[Path]) -> None:
    for version, weights in ((1, versions[1]), (2, versions[2]), (3, versions[0])):
        receipt = await server.publisher.publish(version, weights)
        assert receipt.digests == checkpoint_digests(weights)
        await refuse_unless_serves(server, version, weights)


@pytest.mark.fault("Weights", "a push that fails before the transfer")
async def test_a_version_that_was_damaged_on_its_way_leaves_the_old_one_served_by_both_ranks(
    server: Server, versions: list[Path], tmp_path: Path
) -> None:
    await server.publisher.publish(10, versions[1])
    damaged = version_of(tmp_path / "damaged", 7)
    record_digests(damaged)
    file = damaged / "model.safetensors"
    times = file.stat()
    with file.open("r+b") as stream:
        stream.seek(-3, os.SEEK_END)
        stream.write(b"\x3f")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(PushFailed) as caught:
        await server.publisher.publish(11, damaged)
    assert (caught.value.kind, caught.value.began) == ("receipt_differs", False)
    await refuse_unless_serves(server, 10, versions[1])


async def test_a_rank_that_dies_ends_the_server_and_no_version_is_labelled(
    server: Server, versions: list[Path]
) -> None:
    """The last use of this server."""
    family = psutil.Process(server.handle.pid).children(recursive=True)
    (second,) = (process for process in family if "Worker-1" in process.name() or "Worker_TP1" in process.name())
    os.kill(second.pid, signal.SIGKILL)
    with pytest.raises(PushFailed):
        await server.publisher.publish(20, versions[2])
    await server.handle.wait_died()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
