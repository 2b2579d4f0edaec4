"""Adapters by version on a real vLLM server: each request finishes on its own, with its logprobs, and nothing waits."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

from pace_async.advise.base import Completion
from pace_async.advise.engines.served_copy import serve_from
from pace_async.advise.engines.vllm_managed import AdapterSlots, managed_vllm
from pace_async.publish.base import PushFailed
from pace_async.runtime.children.advisor_folder import TINY
from pace_async.runtime.children.replica import Delivery, Probing, Replica
from pace_async.weights import checkpoint_digests, write_atomically
from tests.support.tensor_files import load_file, save_file
from tests.support.vllm_servers import NOISE, installed_vllm, small_server

pytestmark = [pytest.mark.needs_vllm, pytest.mark.timeout(900)]


def adapter(folder: Path, seed: int, rank: int = 4) -> Path:
    """A random adapter of the tiny advisor, in which nothing is zero."""

    def write(target: Path) -> None:
        base = AutoModelForCausalLM.from_pretrained(TINY)
        config = LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=3 * rank, target_modules="all-linear")
        model: Any = get_peft_model(base, config)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_" in name:
                    weight.copy_(0.05 * torch.randn(weight.shape, generator=generator))
        model.save_pretrained(target)

    write_atomically(folder, write)
    return folder


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("adapters")
    return [TINY, *(adapter(folder / str(seed), seed) for seed in range(1, 4))]


def logprobs(weights: Path, prompt: tuple[int, ...], answer: tuple[int, ...]) -> list[float]:
    model = cast("Any", AutoModelForCausalLM).from_pretrained(TINY)
    if weights != TINY:
        model = PeftModel.from_pretrained(model, weights)
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
    chosen: Any = torch.log_softmax(logits, -1).gather(1, torch.tensor(answer)[:, None])[:, 0]
    return chosen.tolist()


@pytest.fixture(scope="module")
async def replica(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Replica]:
    folder = tmp_path_factory.mktemp("vllm")
    build = installed_vllm()
    settings = small_server(build, adapters=AdapterSlots(rank=4, count=4))
    async with (
        managed_vllm(build, serve_from(TINY, folder / "model"), settings, log=folder / "engine.log") as handle,
        Replica(handle.url, probing=Probing(), delivery=Delivery(adapters=True)) as replica,
    ):
        yield replica


async def answer(replica: Replica, seed: int, tokens: int = 40) -> tuple[tuple[int, ...], Completion]:
    prompt = await replica.encode("The best idea so far")
    return prompt, await replica.generate(prompt, max_tokens=tokens, temperature=1.0, seed=seed)


async def served(replica: Replica) -> set[str]:
    async with httpx.AsyncClient(base_url=replica.url, trust_env=False) as http:
        models = (await http.get("/v1/models")).json()["data"]
    return {model["id"] for model in models if model.get("parent")}


async def test_each_version_has_its_own_logprobs_and_a_whole_receipt(replica: Replica, versions: list[Path]) -> None:
    for version, weights in enumerate(versions):
        receipt = await replica.publish(version, weights)
        assert receipt.digests == ({} if version == 0 else checkpoint_digests(weights))
        prompt, given = await answer(replica, seed=version)
        assert {span.version for span in given.spans} == {version}
        assert given.logprobs == pytest.approx(logprobs(weights, prompt, given.token_ids), abs=NOISE)
        other = logprobs(versions[version - 1], prompt, given.token_ids)
        assert max(abs(a - b) for a, b in zip(given.logprobs, other, strict=True)) > 100 * NOISE


async def test_a_request_finishes_on_the_adapter_that_it_began_with(replica: Replica, versions: list[Path]) -> None:
    """A push while it runs neither waits for it nor changes it, and the old adapter goes once it has ended."""
    await replica.publish(4, versions[1])
    old = replica.labels.last
    found: list[tuple[tuple[int, ...], Completion]] = []

    async def ask() -> None:
        found.append(await answer(replica, seed=5, tokens=800))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        await replica.publish(5, versions[2])
        if not found:
            assert old in await served(replica)
    ((prompt, given),) = found
    assert {span.version for span in given.spans} == {4}
    assert given.logprobs == pytest.approx(logprobs(versions[1], prompt, given.token_ids), abs=NOISE)
    await replica.publish(6, versions[3])
    assert await served(replica) == {replica.labels.last}


async def test_an_adapter_that_does_not_fit_leaves_the_last_version_served(
    replica: Replica, versions: list[Path], tmp_path: Path
) -> None:
    await replica.publish(7, versions[1])
    last = await served(replica)
    with pytest.raises(PushFailed) as caught:
        await replica.publish(8, adapter(tmp_path / "large", 9, rank=16))
    assert not caught.value.began
    stranger = adapter(tmp_path / "stranger", 10)
    file = stranger / "adapter_model.safetensors"
    file.unlink()
    save_file({"base_model.model.elsewhere.lora_A.weight": torch.ones(4, 8)}, file)
    with pytest.raises(PushFailed):
        await replica.publish(8, stranger)
    assert await served(replica) == last
    prompt, given = await answer(replica, seed=3)
    assert {span.version for span in given.spans} == {7}
    assert given.logprobs == pytest.approx(logprobs(versions[1], prompt, given.token_ids), abs=NOISE)


def test_the_adapters_of_this_test_move_every_layer(versions: list[Path]) -> None:
    names = load_file(versions[1] / "adapter_model.safetensors")
    assert {name.split(".")[-3] for name in names} == {
        *("q_proj", "k_proj", "v_proj", "o_proj"),
        *("gate_proj", "up_proj", "down_proj"),
    }
