"""Transfers from the learner's memory into a real vLLM, by vLLM's own classes at both ends. Only NCCL is simulated."""

import shutil
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
import torch

from pace_async.advise.client import ServedAnswer
from pace_async.advise.engines.wire import SamplingParams
from pace_async.children import python_module
from pace_async.configure import resolve
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.learn import client, send
from pace_async.learn.client import ProcessLearner
from pace_async.learn.settings import TrainerConfig
from pace_async.publish import probe
from pace_async.publish.base import PushFailed, Sender
from pace_async.publish.broadcast import Broadcast
from pace_async.publish.nccl import NcclPublisher
from pace_async.runtime.children.external import refuse_unless_fit
from pace_async.runtime.children.replica import Delivery, Probing, Replica
from pace_async.transfer import Transfer
from pace_async.weights import checkpoint_digests, write_atomically
from tests.doubles.simulated_nccl import SimulatedCommunicator, stand_in
from tests.support.engine_models import plain_logprobs
from tests.support.learn_toys import written_groups
from tests.support.tensor_files import load_file
from tests.support.transfers import InMemory, begun, receiver, transfer_of
from tests.support.vllm_servers import NOISE, SharedServer

pytestmark = [
    pytest.mark.needs_vllm,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # in this process vLLM loads what torch means to drop
    pytest.mark.filterwarnings("ignore:Tensor .* exceeds buffer_size_bytes:UserWarning"),
]

HELD = {
    "larger than a chunk": torch.arange(70.0).reshape(7, 10),
    "one number": torch.tensor(3.0),
    "coarse": torch.linspace(-1, 1, 12).to(torch.bfloat16).reshape(3, 4),
    "not in one piece": torch.arange(12.0).reshape(3, 4).T,
    "last": torch.tensor([5.0, 6.0]),
}


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)


def _with_stand_in(_: str, *rest: str) -> list[str]:
    """The learner's command, with the stand-in for NCCL in its process."""
    return python_module("tests.doubles.simulated_nccl", *rest)


@pytest.mark.usefixtures("simulated")
def test_every_tensor_arrives_bit_for_bit_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    from pace_async.advise.engines import vllm_nccl

    for module in (send, vllm_nccl):
        monkeypatch.setattr(module, "CHUNK", 64)
    transfer = transfer_of(HELD, 30.0)
    end = receiver()
    receiving = begun(lambda: end.receive(transfer))
    send.send(HELD, transfer)
    arrived: Any = receiving.result(60)
    assert list(arrived) == list(HELD)
    for name, tensor in HELD.items():
        assert arrived[name].dtype == tensor.dtype
        assert torch.equal(arrived[name], tensor), name


def arrived_at(transfer: Transfer, ends: Mapping[Any, int]) -> list[Future[object]]:
    """What arrives at these receivers, the ranks of engines whose first places are given."""

    def receiving(end: Any, first: int) -> Future[object]:
        return begun(lambda: end.receive(replace(transfer, first=first)))

    return [receiving(end, first) for end, first in ends.items()]


@pytest.mark.usefixtures("simulated")
def test_one_transfer_brings_every_tensor_to_each_rank_of_several_engines() -> None:
    transfer = replace(transfer_of(HELD, 60.0), members=4)
    receiving = arrived_at(transfer, {receiver(): 1, receiver(rank=0): 2, receiver(rank=1): 2})
    send.send(HELD, transfer)
    for each in receiving:
        arrived: Any = each.result(60)
        assert list(arrived) == list(HELD)
        assert all(torch.equal(arrived[name], tensor) for name, tensor in HELD.items())


@pytest.mark.fault("Weights", "a push that hangs")
@pytest.mark.usefixtures("simulated")
def test_a_rank_that_stops_in_the_middle_breaks_the_group_by_its_deadline_and_the_next_one_is_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SimulatedCommunicator, "patience", timedelta(seconds=5))
    stopped, came = receiver(rank=1), threading.Event()

    def receive(_: object) -> None:
        came.wait(60)

    stopped.receive_weights = receive
    broken = replace(transfer_of(HELD, 2.0), members=4)
    arrived_at(broken, {receiver(): 1, receiver(rank=0): 2, stopped: 2})
    with pytest.raises(send.TransferBroken):
        send.send(HELD, broken)
    came.set()
    monkeypatch.undo()
    stand_in(monkeypatch)
    again = replace(transfer_of(HELD, 60.0), members=2)
    receiving = arrived_at(again, {receiver(): 1})
    send.send(HELD, again)
    arrived: Any = receiving[0].result(60)
    assert all(torch.equal(arrived[name], tensor) for name, tensor in HELD.items())


@pytest.mark.usefixtures("simulated")
def test_a_learner_without_a_receiver_gives_up() -> None:
    with pytest.raises(send.TransferBroken):
        send.send(HELD, transfer_of(HELD, 1.0))


@pytest.mark.fault("Weights", "a push that hangs")
@pytest.mark.usefixtures("simulated")
def test_either_end_breaks_off_when_the_other_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedCommunicator, "patience", timedelta(seconds=5))
    transfer = transfer_of(HELD, 1.0)
    came = threading.Event()

    def receive(_: object) -> None:
        came.wait(60)

    end = receiver()
    end.receive_weights = receive
    begun(lambda: end.receive(replace(transfer, seconds=60.0)))
    with pytest.raises(send.TransferBroken, match="not over after 1 s"):
        send.send(HELD, transfer)
    came.set()

    transfer = transfer_of(HELD, 1.0)
    other = receiver()
    receiving = begun(lambda: other.receive(transfer))
    group = send.join(replace(transfer, seconds=60.0))
    with pytest.raises(TimeoutError, match="not over after 1 s"):
        receiving.result(60)
    group.destroy()


@dataclass
class Together:
    """A server and a learner, each in a process of its own, and copies of the versions that the learner has made."""

    server: SharedServer
    learner: ProcessLearner
    groups: list[Path]
    kept: Path


@pytest.fixture(scope="module")
async def together(server: SharedServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Together]:
    folder = tmp_path_factory.mktemp("nccl")
    groups, given = written_groups(folder / "groups", 2, vocab=700), server.given
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "python_module", _with_stand_in)
        async with ProcessLearner(given, folder / "learner", TrainerConfig(learning_rate=1e-3)) as learner:
            yield Together(server, learner, groups, folder / "kept")


@dataclass
class Counted:
    """The sender, and how often it has sent."""

    sender: Sender
    sent: int = 0

    def can_send(self, version: int) -> bool:
        return self.sender.can_send(version)

    async def send(self, transfer: Transfer) -> None:
        await self.sender.send(transfer)
        self.sent += 1


async def test_each_version_that_the_learner_trains_is_sent_from_its_memory_and_served(together: Together) -> None:
    prompt = await together.server.engine.encode("The best idea so far")
    sender = Counted(together.learner)
    async with Replica(
        together.server.handle.url,
        probing=Probing(together.learner),
        delivery=Delivery(transport="nccl", sender=Broadcast(sender)),
    ) as replica:
        for version in (0, 1, 2):
            weights = together.server.given
            if version:
                step = await together.learner.train(together.groups[version - 1])
                assert step.weights is not None
                weights = write_copy(step.weights, together.kept / str(version))
            receipt = await replica.publish(version, weights)
            assert sender.sent == version, "version 0 goes by file"
            assert receipt.digests == checkpoint_digests(weights)
            assert receipt.k3 is not None
            assert receipt.k3 < probe.LEAST
            answer = await replica.generate(prompt, max_tokens=40, temperature=1.0, seed=version)
            assert {span.version for span in answer.spans} == {version}
            expected = plain_logprobs(weights, prompt, answer.token_ids, 1.0)
            assert answer.logprobs == pytest.approx(expected, abs=NOISE)


async def test_a_learner_without_a_receiver_reports_it_and_keeps_running(together: Together) -> None:
    version = together.learner.version
    held = load_file(together.kept / str(version) / "model.safetensors")
    with pytest.raises(InfrastructureFault) as caught:
        await together.learner.send(transfer_of(held, 1.0))
    assert caught.value.kind == "transfer_broken"
    assert together.learner.can_send(version)


async def test_a_server_that_reports_a_cpu_is_refused(together: Together) -> None:
    settings = {"advisor.model": "tiny", "advisor.transport": "nccl", "advisor.engine": together.server.handle.url}
    config = resolve(None, settings, environment={})
    with pytest.raises(UsageError, match="serves on: cpu"):
        await refuse_unless_fit(config, all_up=True)
    assert psutil.Process(together.server.handle.pid).environ()["CUDA_VISIBLE_DEVICES"] == "0"


def write_copy(weights: Path, folder: Path) -> Path:
    """As a version that its learner keeps for good."""
    folder.parent.mkdir(exist_ok=True)

    def copy(target: Path) -> None:
        shutil.copytree(weights, target, dirs_exist_ok=True)

    write_atomically(folder, copy)
    return folder


@pytest.mark.usefixtures("simulated")
async def test_a_request_goes_on_while_versions_arrive_and_has_the_numbers_of_each(together: Together) -> None:
    prompt = await together.server.engine.encode("The best idea so far")
    folders = [together.kept / "1", together.kept / "2"]
    sender, answers, version = InMemory(), list[ServedAnswer](), 10

    def spanning() -> list[ServedAnswer]:
        return [answer for answer in answers if len(answer.spans or ()) >= 2]

    async with (
        NcclPublisher(together.server.handle.url, Broadcast(sender)) as publisher,
        anyio.create_task_group() as tasks,
    ):

        async def ask() -> None:
            """One request after another: so there is one when a version arrives, however fast the server is."""
            while not spanning():
                sampled = await together.server.engine.sample(
                    prompt, SamplingParams(max_tokens=800, seed=3, ignore_eos=True)
                )
                answers.append(sampled)

        sender.held = load_file(folders[0] / "model.safetensors")
        await publisher.publish(version, folders[0])
        tasks.start_soon(ask)
        while not spanning() and version < 60:
            version += 1
            folder = folders[version % 2]
            sender.held = load_file(folder / "model.safetensors")
            await publisher.publish(version, folder)
        tasks.cancel_scope.cancel()
    answer, *_ = spanning()
    for span in answer.spans or ():
        expected = plain_logprobs(folders[int(span.version) % 2], prompt, answer.token_ids, 1.0)
        part = slice(span.start, span.end)
        assert answer.logprobs[part] == pytest.approx(expected[part], abs=NOISE)


@pytest.mark.fault("Weights", "a push that fails before the transfer")
@pytest.mark.usefixtures("simulated")
async def test_a_missing_or_damaged_tensor_leaves_the_old_version_served(together: Together) -> None:
    old, new = together.kept / "1", together.kept / "2"
    sender = InMemory(load_file(old / "model.safetensors"))
    async with NcclPublisher(together.server.handle.url, Broadcast(sender), phase_s=20.0) as publisher:
        await publisher.publish(40, old)
        damaged = load_file(new / "model.safetensors")
        damaged["model.norm.weight"].view(torch.int32)[0] ^= 1
        for held, kind in ((None, "transfer_broken"), (damaged, "receipt_differs")):
            sender.held = held
            with pytest.raises(PushFailed) as caught:
                await publisher.publish(41, new)
            assert (caught.value.kind, caught.value.began) == (kind, False)
            prompt = await together.server.engine.encode("The best idea so far")
            answer = await together.server.engine.generate(prompt, max_tokens=20, temperature=1.0, seed=1)
            assert [span.version for span in answer.spans] == [40]
            assert answer.logprobs == pytest.approx(plain_logprobs(old, prompt, answer.token_ids, 1.0), abs=NOISE)
        sender.held = load_file(new / "model.safetensors")
        assert (await publisher.publish(41, new)).digests == checkpoint_digests(new)
