"""A real vLLM server that is divided among two ranks: versions are whole only by the slices of both."""

import os
import signal
from collections.abc import AsyncIterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
import torch

from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.served_copy import serve_from
from pace_async.advise.engines.vllm_managed import managed_vllm
from pace_async.publish import broadcast
from pace_async.publish.base import PushFailed
from pace_async.publish.file import FilePublisher
from pace_async.publish.nccl import NcclPublisher
from pace_async.runtime.children.advisor_folder import TINY
from pace_async.transfer import Transfer
from pace_async.weights import checkpoint_digests, record_digests
from tests.doubles.simulated_nccl import stand_in
from tests.support.noisy_versions import version_of
from tests.support.tensor_files import load_file
from tests.support.transfers import InMemory, begun, receiver, transfer_of
from tests.support.vllm_servers import SIMULATED_NCCL, Server, installed_vllm, small_server

pytestmark = [
    pytest.mark.needs_vllm,
    pytest.mark.timeout(1800),  # of which a start beside heavy load takes most
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # in this process vLLM loads what torch means to drop
    pytest.mark.filterwarnings("ignore:Tensor .* exceeds buffer_size_bytes:UserWarning"),
]

TOKENS = 12
"""Of an answer. Ranks on a processor wait for each other by spinning, many times a token, which is slow beside load."""


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("versions")
    return [version_of(folder / str(seed), seed) for seed in range(3)]


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """Of two ranks."""
    folder, build = tmp_path_factory.mktemp("vllm"), installed_vllm()
    model = serve_from(TINY, folder / "model")
    settings = small_server(build, gpus=("0", "1"), arguments=SIMULATED_NCCL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
        async with (
            managed_vllm(build, model, settings, log=folder / "engine.log", start_s=1500.0) as handle,
            HttpEngine(handle.url, timeout_s=600.0) as engine,
            FilePublisher(handle.url, phase_s=300.0) as publisher,
        ):
            yield Server(handle, engine, publisher, model)


async def test_a_version_is_proven_by_the_slices_of_both_ranks_and_served(server: Server, versions: list[Path]) -> None:
    for version, weights in ((1, versions[1]), (2, versions[2])):
        receipt = await server.publisher.publish(version, weights)
        assert receipt.digests == checkpoint_digests(weights)
        await server.refuse_unless_served(version, weights, TOKENS)


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
    await server.refuse_unless_served(10, versions[1], TOKENS)


async def test_one_transfer_brings_a_version_to_both_ranks_and_to_another_engine(
    server: Server, versions: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch)
    monkeypatch.setattr(broadcast, "GATHER_S", 60.0)  # the group is full before, however slow the machine is
    await server.publisher.publish(30, versions[1])
    held = load_file(versions[2] / "model.safetensors")
    sender, other = InMemory(held), receiver()
    group, arrivals = broadcast.Broadcast(sender, 2), list[Future[object]]()

    async def announce(transfer: Transfer) -> None:
        arrivals.append(begun(lambda: other.receive(transfer)))

    async with NcclPublisher(server.handle.url, group) as publisher, anyio.create_task_group() as tasks:
        tasks.start_soon(group.send, 31, 1, transfer_of(held, 60.0), announce)
        receipt = await publisher.publish(31, versions[2])
        assert receipt.digests == checkpoint_digests(versions[2])
    assert [transfer.members for transfer in sender.asked] == [4]
    await server.refuse_unless_served(31, versions[2], TOKENS)
    arrived: Any = arrivals[0].result(60)
    assert all(torch.equal(arrived[name], tensor) for name, tensor in held.items())


async def test_a_tensor_that_is_damaged_on_its_way_to_the_ranks_leaves_the_old_version_served(
    server: Server, versions: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch)
    await server.publisher.publish(40, versions[1])
    damaged = load_file(versions[0] / "model.safetensors")
    damaged["model.norm.weight"].view(torch.int32)[0] ^= 1
    async with NcclPublisher(server.handle.url, broadcast.Broadcast(InMemory(damaged))) as publisher:
        with pytest.raises(PushFailed) as caught:
            await publisher.publish(41, versions[0])
    assert (caught.value.kind, caught.value.began) == ("receipt_differs", False)
    await server.refuse_unless_served(40, versions[1], TOKENS)


async def test_a_rank_that_dies_ends_the_others_and_no_version_is_labelled(
    server: Server, versions: list[Path]
) -> None:
    """The last use of this server. Its front may stay for a while, and a run's supervisor kills it then. The memory
    that the ranks share is gone after it."""
    family = psutil.Process(server.handle.pid).children(recursive=True)
    maps = {mapped.path for process in family for mapped in process.memory_maps()}
    segments = [Path(path) for path in maps if path.startswith("/dev/shm/psm_")]
    assert segments
    engine = [process for process in family if process.name().startswith("VLLM::")]
    (second,) = (process for process in engine if process.name().endswith("TP1"))
    os.kill(second.pid, signal.SIGKILL)
    with pytest.raises(PushFailed):
        await server.publisher.publish(20, versions[2])
    _, alive = psutil.wait_procs(engine, timeout=300)
    assert alive == []
    await server.handle.stop()
    assert [segment for segment in segments if segment.exists()] == []
