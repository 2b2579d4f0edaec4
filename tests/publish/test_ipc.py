"""Publishing on one card, all but the memory: which requests are sent in which order, and when the buffer is freed."""

from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from pace_async.configure import resolve
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.publish.base import PublisherParts, PushFailed, Receipt
from pace_async.publish.file import FilePublisher
from pace_async.publish.ipc import IpcPublisher, by_ipc
from pace_async.transfer import HostHandle, SharedBuffer, Table
from pace_async.weights import checkpoint_digests
from tests.doubles.publishers import Failure, PushedEngine, breaking, refusing
from tests.support.publishing import ASKED_BY_IPC, BEFORE, PHASES


class SimulatedSharer:
    """A learner that holds one version. It notes in the engine's own list when it shares it, and how that ended."""

    def __init__(self, engine: PushedEngine, version: int, fault: InfrastructureFault | None = None) -> None:
        self.engine, self.version, self.fault = engine, version, fault
        self.shared: list[SharedBuffer] = []
        self.ended: list[bool] = []

    def can_send(self, version: int) -> bool:
        return version == self.version

    async def share(self, version: int, table: Table) -> SharedBuffer:
        assert version == self.version
        self.engine.asked.append("share")
        if self.fault is not None:
            raise self.fault
        handle = HostHandle(12, 30 + len(self.shared))
        self.shared.append(SharedBuffer(handle, 512, table.names, table.dtypes, table.shapes, [0, 256]))
        return self.shared[-1]

    def end_share(self, *, closed: bool) -> None:
        self.ended.append(closed)


async def push(engine: PushedEngine, sharer: SimulatedSharer, weights: Path, *, version: int = 1) -> Receipt:
    transport = httpx.MockTransport(engine)
    async with IpcPublisher("http://engine", sharer, phase_s=5.0, transport=transport) as publisher:
        return await publisher.publish(version, weights)


async def test_the_engine_opens_the_buffer_before_the_pause_and_closes_it_after_the_resume(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    sharer = SimulatedSharer(engine, 1)
    receipt = await push(engine, sharer, weights)
    assert receipt.digests == checkpoint_digests(weights)
    assert tuple(engine.asked) == ASKED_BY_IPC
    (shared,) = sharer.shared
    assert shared.table == Table(["a", "b"], ["float32"] * 2, [[2, 3], [2]])
    announced: Any = engine.bodies["init_weight_transfer_engine"]
    assert SharedBuffer.from_json(announced["init_info"]["shared"]) == shared
    assert announced["init_info"]["path"] == str(weights)
    assert engine.bodies["update_weights"] == {"update_info": {"path": str(weights)}}
    assert sharer.ended == [True]


async def test_weights_that_the_learner_does_not_hold_go_by_file(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    sharer = SimulatedSharer(engine, 2)
    await push(engine, sharer, weights)
    assert tuple(engine.asked) == PHASES
    assert engine.bodies["init_weight_transfer_engine"] == {"init_info": {"path": str(weights)}}
    assert sharer.ended == []


async def test_without_a_learner_versions_go_by_file() -> None:
    publisher = by_ipc(PublisherParts("http://engine", 5.0, str, None))
    assert not isinstance(publisher, IpcPublisher)
    assert isinstance(publisher, FilePublisher)
    await publisher.aclose()


@pytest.mark.fault("Weights", "a push that fails before the transfer")
async def test_a_learner_that_cannot_share_leaves_the_old_version_served(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    sharer = SimulatedSharer(engine, 1, InfrastructureFault("learner_died", "it was killed"))
    with pytest.raises(PushFailed, match="share: it was killed") as caught:
        await push(engine, sharer, weights)
    assert (caught.value.kind, caught.value.began) == ("learner_died", False)
    assert engine.asked == ["share"]
    assert sharer.ended == []
    sharer.fault = None
    await push(engine, sharer, weights)
    assert sharer.ended == [True]


@pytest.mark.fault("Weights", "a push that fails before the transfer")
async def test_a_buffer_with_other_content_is_refused_before_any_pause_and_freed(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    engine.read["a"] = "0" * 32
    sharer = SimulatedSharer(engine, 1)
    with pytest.raises(PushFailed) as caught:
        await push(engine, sharer, weights)
    assert (caught.value.kind, caught.value.began) == ("receipt_differs", False)
    assert "pause" not in engine.asked
    assert engine.asked[-1] == "memory_closed"
    assert sharer.ended == [True]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("failure", "kind"), [(refusing, "push_refused"), (breaking, "push_unreachable")])
async def test_a_failing_phase_ends_the_push_as_it_does_by_file_and_the_buffer_is_freed(
    weights: Path, phase: str, failure: Failure, kind: str
) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    engine.failing[phase] = failure
    sharer = SimulatedSharer(engine, 1)
    with pytest.raises(PushFailed) as caught:
        await push(engine, sharer, weights)
    assert (caught.value.kind, caught.value.began) == (kind, phase not in BEFORE)
    assert sharer.ended == [True]


@pytest.mark.parametrize("failure", [refusing, breaking])
async def test_an_engine_that_does_not_say_that_it_closed_the_buffer_fails_no_push(
    weights: Path, failure: Failure
) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    engine.failing["memory_closed"] = failure
    sharer = SimulatedSharer(engine, 1)
    assert (await push(engine, sharer, weights)).version == 1
    assert sharer.ended == [False]


async def test_a_push_that_is_given_up_frees_the_buffer(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    sharer = SimulatedSharer(engine, 1)
    with anyio.CancelScope() as scope:

        def give_up(request: httpx.Request) -> httpx.Response:
            scope.cancel()
            return httpx.Response(200, json={"results": [None]})

        engine.failing["weights_prepared"] = give_up
        await push(engine, sharer, weights)
    assert scope.cancelled_caught
    assert engine.asked[-1] == "memory_closed"
    assert sharer.ended == [True]


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"advisor.engine": "embedded"}, "with advisor.engine vllm; it is embedded"),
        ({"advisor.engine": "http://127.0.0.1:1"}, "with advisor.engine vllm; it is http://127.0.0.1:1"),
        ({"learner.lora_rank": 8}, "is for whole weights, and learner.lora_rank makes adapters"),
        ({"learner.gpus": 2}, "and the learner is divided among 2 ranks"),
        ({"learner.cpu_ranks": 3}, "and the learner is divided among 3 ranks"),
        ({"advisor.gpus": [0, 1]}, "and the engine is divided among 2 ranks"),
        (
            {"advisor.engine_arguments": ["--tensor-parallel-size=2"]},
            "leave --tensor-parallel-size=2 out of advisor.engine_arguments",
        ),
        (
            {"advisor.engine_arguments": ["--tensor_parallel_size", "2"]},
            "leave --tensor_parallel_size out of advisor.engine_arguments",
        ),
        (
            {"advisor.engine_arguments": ["--pipeline-parallel-size=2"]},
            "leave --pipeline-parallel-size=2 out of advisor.engine_arguments",
        ),
        ({"advisor.engine_arguments": ["-dp", "2"]}, "leave -dp out of advisor.engine_arguments"),
    ],
)
def test_ipc_is_refused_where_learner_and_engine_do_not_share_one_card(
    overrides: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UsageError, match=r"advisor\.transport ipc is for ") as caught:
        resolve(None, {"advisor.transport": "ipc", "advisor.engine": "vllm", **overrides}, environment={})
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
