"""Adapters by version: which one a request names, when an old one goes, and what a receipt of one rests on."""

import json
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
import torch

from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.vllm_lora_proof import not_in_slot
from pace_async.publish.adapter import AdapterPublisher, LoadedAdapters
from pace_async.publish.base import PushFailed
from pace_async.runtime.children.replica import PushLabels
from pace_async.weights import BASE, checkpoint_digests, write_atomically
from tests.support.tensor_files import load_file, save_file

A, B = "base_model.model.layer.q.lora_A.weight", "base_model.model.layer.k.lora_B.weight"


def adapter(folder: Path, seed: int) -> Path:
    generator = torch.Generator().manual_seed(seed)
    tensors = {A: torch.randn(2, 6, generator=generator), B: torch.randn(4, 2, generator=generator)}

    def write(target: Path) -> None:
        save_file(tensors, target / "adapter_model.safetensors")
        (target / "adapter_config.json").write_text(json.dumps({"r": 2, "lora_alpha": 6}))

    write_atomically(folder, write)
    return folder


class Server:
    """The paths of vLLM that adapters need, scripted."""

    def __init__(self) -> None:
        self.loaded: dict[str, str] = {}
        self.asked: list[str | None] = []
        self.receipt: dict[str, str] | None = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if request.url.path == "/v1/load_lora_adapter":
            self.loaded[body["lora_name"]] = body["lora_path"]
        elif request.url.path == "/v1/unload_lora_adapter":
            if self.loaded.pop(body["lora_name"], None) is None:
                return httpx.Response(404)
        elif request.url.path == "/collective_rpc":
            (path,) = body["args"]
            return httpx.Response(200, json={"results": [self.receipt or checkpoint_digests(Path(path))]})
        elif request.url.path == "/inference/v1/generate":
            self.asked.append(body.get("model"))
            choice = {
                "index": 0,
                "finish_reason": "stop",
                "token_ids": [5],
                "logprobs": {"content": [{"token_id": 5, "logprob": -1.0}]},
                "weight_versions": [{"version": "default", "start": 0, "end": 1}],
            }
            return httpx.Response(200, json={"request_id": "r", "choices": [choice]})
        return httpx.Response(200, json={})


async def push(publisher: AdapterPublisher, labels: PushLabels, version: int, weights: Path) -> str:
    receipt = await publisher.publish(version, weights)
    assert receipt.digests == checkpoint_digests(weights)
    assert receipt.paused_seconds == 0
    labels.settle(True)
    name = labels.last
    assert name is not None
    await publisher.turn_to(name)
    return name


async def test_requests_name_the_newest_adapter_and_an_old_one_goes_when_no_request_needs_it(tmp_path: Path) -> None:
    server, held, labels = Server(), LoadedAdapters(), PushLabels(numbered=True)
    transport = httpx.MockTransport(server)
    async with (
        HttpEngine("http://e", labels=labels, adapters=held, transport=transport) as engine,
        AdapterPublisher("http://e", held, label=labels.begin, transport=transport) as publisher,
    ):

        async def served() -> int:
            answer = await engine.generate((1, 2), max_tokens=4, temperature=1.0, seed=0)
            return answer.spans[0].version

        await publisher.publish(0, tmp_path)
        assert await served() == 0
        first = await push(publisher, labels, 1, adapter(tmp_path / "1", 1))
        assert await served() == 1
        with held.using() as needed:
            assert needed == first
            second = await push(publisher, labels, 2, adapter(tmp_path / "2", 2))
            assert await served() == 2
            assert sorted(server.loaded) == [first, second]
        third = await push(publisher, labels, 3, adapter(tmp_path / "3", 3))
        assert list(server.loaded) == [third]
        server.loaded.clear()  # it was started anew
        fourth = await push(publisher, labels, 3, adapter(tmp_path / "3", 3))
        assert list(server.loaded) == [fourth]
    assert server.asked == [None, first, second]
    assert BASE not in server.asked


async def test_an_adapter_whose_receipt_differs_is_unloaded_and_never_named(tmp_path: Path) -> None:
    server, held, labels = Server(), LoadedAdapters(), PushLabels(numbered=True)
    weights = adapter(tmp_path / "1", 1)
    server.receipt = {A: checkpoint_digests(weights)[A]}
    async with AdapterPublisher(
        "http://e", held, label=labels.begin, transport=httpx.MockTransport(server)
    ) as publisher:
        with pytest.raises(PushFailed, match="1 of 2 tensors are not what was sent") as caught:
            await publisher.publish(1, weights)
    assert caught.value.kind == "receipt_differs"
    assert not caught.value.began
    assert server.loaded == {}
    assert held.newest == BASE


def manager(folder: Path, slots: int = 3, rank: int = 4) -> SimpleNamespace:
    """vLLM's buffers with the adapter of `folder` as number 7, in the middle slot."""
    given = load_file(folder / "adapter_model.safetensors")
    layer = SimpleNamespace(
        lora_a_stacked=[torch.zeros(slots, 1, rank, 6) for _ in "qk"],
        lora_b_stacked=[torch.zeros(slots, 1, 4, rank) for _ in "qk"],
    )
    layer.lora_a_stacked[0][1, 0, :2] = given[A]
    layer.lora_b_stacked[1][1, 0, :, :2] = given[B] * 3
    return SimpleNamespace(
        modules={"layer.qk": layer}, packed_modules_mapping={"qk": ["q", "k"]}, lora_index_to_id=[None, 7, None]
    )


def test_an_adapter_is_in_its_slot_or_is_named_as_missing(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "1", 1)
    tensors = load_file(folder / "adapter_model.safetensors")
    whole = manager(folder)
    assert not_in_slot(whole, 7, tensors, folder) == []
    assert not_in_slot(whole, 8, tensors, folder) == sorted([A, B])
    other = load_file(adapter(tmp_path / "2", 2) / "adapter_model.safetensors")
    assert set(not_in_slot(whole, 7, other, folder)) == {A, B}
    whole.modules["layer.qk"].lora_b_stacked[1][1, 0, 0, 3] = 0.5  # beyond the adapter's rank
    assert not_in_slot(whole, 7, tensors, folder) == [B]
    elsewhere = {"base_model.model.layer.v.lora_A.weight": tensors[A]}
    assert not_in_slot(whole, 7, elsewhere, folder) == list(elsewhere)
