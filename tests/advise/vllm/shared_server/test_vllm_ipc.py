"""Versions that a real vLLM opens in a real learner's memory. On the processor: shared memory, not CUDA's handles."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from pace_async.advise.engines.load import BadCheckpoint
from pace_async.advise.engines.shared import OpenedVersion
from pace_async.learn.client import ProcessLearner
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.share import SharedVersion
from pace_async.publish import probe
from pace_async.publish.base import PushFailed, Sharer
from pace_async.publish.ipc import IpcPublisher
from pace_async.publish.phases import Phases
from pace_async.runtime.children.replica import Delivery, Probing, Replica
from pace_async.transfer import SharedBuffer, Table
from pace_async.weights import checkpoint_digests
from tests.support.engine_models import plain_logprobs
from tests.support.learn_toys import written_groups
from tests.support.noisy_versions import version_of
from tests.support.shared_versions import HELD, TABLE
from tests.support.tensor_files import load_file
from tests.support.vllm_servers import NOISE, SharedServer

pytestmark = [
    pytest.mark.needs_vllm,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # in this process vLLM loads what torch means to drop
]


def mapped(server: SharedServer) -> int:
    """How many shared versions the server's processes have in their memory."""
    return sum(Path(f"/proc/{one.pid}/maps").read_text().count("memfd:pace-version") for one in server.family())


@pytest.mark.fault("Weights", "a push that fails after the transfer has begun")
def test_memory_that_is_not_what_was_compared_any_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from pace_async.advise.engines.vllm_reload import FromMemory, Reloaded

    def load(version: Reloaded) -> None:
        """In place of vLLM's loader."""

    monkeypatch.setattr(Reloaded, "put_in_force", load)
    learner = SharedVersion()
    opened = OpenedVersion(learner.share(HELD, TABLE))
    version = FromMemory(torch.nn.Module(), None, Path("version"), opened, torch.device("cpu"))
    version.put_in_force()
    opened.tensors["matrix"][2, 3] += 1  # as when the memory of a dead learner gets other content
    with pytest.raises(BadCheckpoint, match="the learner's memory changed before it was loaded"):
        version.put_in_force()
    version.forget()
    assert opened.close(), "nothing refers to the memory any more"
    learner.end(closed=True)


@dataclass
class Noted:
    """The learner, with what it shared and how that ended."""

    learner: Sharer
    shared: list[SharedBuffer] = field(default_factory=list[SharedBuffer])
    ended: list[bool] = field(default_factory=list[bool])

    def can_send(self, version: int) -> bool:
        return self.learner.can_send(version)

    async def share(self, version: int, table: Table) -> SharedBuffer:
        self.shared.append(await self.learner.share(version, table))
        return self.shared[-1]

    def end_share(self, *, closed: bool) -> None:
        self.ended.append(closed)
        self.learner.end_share(closed=closed)


class InThisProcess:
    """A learner of this process that holds any version of these tensors. If it `dies`, then before the server opens
    what it shared."""

    def __init__(self, held: Mapping[str, torch.Tensor]) -> None:
        self.held = held
        self.dies = False
        self.version = SharedVersion()

    def can_send(self, version: int) -> bool:
        return True

    async def share(self, version: int, table: Table) -> SharedBuffer:
        shared = self.version.share(self.held, table)
        if self.dies:
            self.version.end(closed=False)
        return shared

    def end_share(self, *, closed: bool) -> None:
        self.version.end(closed=closed)


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return written_groups(tmp_path_factory.mktemp("groups"), 4, vocab=700)


@pytest.fixture(scope="module")
async def learner(server: SharedServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProcessLearner]:
    out = tmp_path_factory.mktemp("learner")
    async with ProcessLearner(server.given, out, TrainerConfig(learning_rate=1e-3)) as learner:
        yield learner


async def test_three_versions_of_a_learner_are_read_from_its_memory_proven_and_served(
    server: SharedServer, learner: ProcessLearner, groups: list[Path]
) -> None:
    noted = Noted(learner)
    delivery = Delivery(transport="ipc", sharer=noted)
    async with Replica(server.handle.url, probing=Probing(learner), delivery=delivery) as replica:
        for version in range(4):
            weights = server.given
            if version:
                step = await learner.train(groups[version - 1])
                assert step.weights is not None
                weights = step.weights
            receipt = await replica.publish(version, weights)
            assert len(noted.shared) == version, "version 0 goes by file"
            assert noted.ended == [True] * version
            assert receipt.digests == checkpoint_digests(weights)
            assert receipt.k3 is not None
            assert receipt.k3 < probe.LEAST
            prompt = await replica.encode("The best idea so far")
            answer = await replica.generate(prompt, max_tokens=40, temperature=1.0, seed=version)
            assert {span.version for span in answer.spans} == {version}
            expected = plain_logprobs(weights, prompt, answer.token_ids, 1.0)
            assert answer.logprobs == pytest.approx(expected, abs=NOISE)
            assert mapped(server) == 0, "the server lets go of the memory after each push"
    await learner.logprobs(3, (2, 3), (4, 5))
    for shared in noted.shared:
        with pytest.raises(BadCheckpoint):
            OpenedVersion(shared)


@pytest.mark.fault("Weights", "a push that fails before the transfer")
async def test_a_damaged_tensor_or_a_dead_learner_leaves_the_old_version_served(
    server: SharedServer, tmp_path: Path
) -> None:
    old, new = (version_of(tmp_path / str(seed), seed) for seed in (1, 2))
    sharer = InThisProcess(load_file(old / "model.safetensors"))
    async with IpcPublisher(server.handle.url, sharer, phase_s=60.0) as publisher:
        await publisher.publish(40, old)
        damaged = load_file(new / "model.safetensors")
        damaged["model.norm.weight"].view(torch.int32)[0] ^= 1
        sharer.held = damaged
        with pytest.raises(PushFailed) as caught:
            await publisher.publish(41, new)
        assert (caught.value.kind, caught.value.began) == ("receipt_differs", False)
        assert mapped(server) == 0
        await server.refuse_unless_served(40, old)

        sharer.dies = True
        with pytest.raises(PushFailed, match="the learner's memory cannot be opened") as caught:
            await publisher.publish(42, new)
        assert (caught.value.kind, caught.value.began) == ("push_refused", False)
        await server.refuse_unless_served(40, old)
    whole = InThisProcess(load_file(new / "model.safetensors"))
    async with IpcPublisher(server.handle.url, whole, phase_s=60.0) as publisher:
        assert (await publisher.publish(43, new)).digests == checkpoint_digests(new)
    await server.refuse_unless_served(43, new)


async def test_a_learner_that_is_killed_while_the_server_reads_loses_nothing(
    server: SharedServer, learner: ProcessLearner, groups: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last use of this learner."""
    step = await learner.train(groups[learner.version])
    assert step.weights is not None
    (child,) = [one for one in psutil.Process().children() if "pace_async.learn.process" in one.cmdline()]
    ask = Phases.ask

    async def kill_when_opened(phases: Phases, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        answer = await ask(phases, path, body)
        if path == "init_weight_transfer_engine":
            child.kill()
        return answer

    monkeypatch.setattr(Phases, "ask", kill_when_opened)
    noted = Noted(learner)
    async with IpcPublisher(server.handle.url, noted, phase_s=60.0) as publisher:
        receipt = await publisher.publish(step.version, step.weights)
    assert receipt.digests == checkpoint_digests(step.weights)
    assert noted.ended == [True]
    await server.refuse_unless_served(step.version, step.weights)
    assert (await learner.wait_lost()).kind == "learner_died"
    assert await learner.ready() == step.weights, "it is started again"
