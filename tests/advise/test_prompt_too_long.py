"""A prompt is cut until it fits the advisor's context. If that is not possible its lease ends, because no retry
helps."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import anyio
import httpx
import pytest

from pace_async.advise.base import PromptTooLong
from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.server import build_app
from pace_async.errors import GaveUp
from pace_async.population.blobs import unpack_ids
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.stages import SimulatedEngine, World
from tests.support.changed_stages import change_stages
from tests.support.simulated_runs import settings, simulated


class Words:
    """A tokenizer: one token for each character."""

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return [ord(character) for character in text]


class SmallEngine:
    """An engine over HTTP whose answers are simulated and whose context is `context` tokens."""

    def __init__(self, world: World, context: int) -> None:
        self.inner, self.context = SimulatedEngine(world), context
        self.asked: list[str] = []

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        if request.url.path == "/weight_info":
            return httpx.Response(200, json={"weight_version": "0"})
        body = json.loads(request.content)
        if request.url.path == "/tokenize":
            ids = await self.inner.encode(body["prompt"])
            found: dict[str, Any] = {"count": len(ids), "max_model_len": self.context, "tokens": ids}
        elif request.url.path == "/detokenize":
            found = {"prompt": await self.inner.decode(tuple(body["tokens"]))}
        else:
            found = await self._generate(body["token_ids"], body["sampling_params"])
        return httpx.Response(200, json=found)

    async def _generate(self, prompt: list[int], parameters: dict[str, Any]) -> dict[str, Any]:
        most, seed = parameters["max_tokens"], parameters["seed"]
        whole = await self.inner.generate(tuple(prompt), max_tokens=most, temperature=1.0, seed=seed)
        tokens = whole.token_ids[: max(1, self.context - len(prompt))]
        choice = {
            "index": 0,
            "finish_reason": whole.finish if tokens == whole.token_ids else "length",
            "token_ids": tokens,
            "logprobs": {"content": [{"token_id": token, "logprob": -1.0} for token in tokens]},
            "weight_versions": [{"version": str(whole.spans[-1].version), "start": 0, "end": len(tokens)}],
        }
        return {"request_id": "r", "choices": [choice]}

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[HttpEngine]:
        async with HttpEngine("http://engine", transport=httpx.MockTransport(self.answer)) as engine:
            yield engine


async def test_the_embedded_servers_context_is_known_and_a_longer_prompt_is_never_sent() -> None:
    nothing = Mock(spec=["resume", "start_update"])  # there is no model: nothing must be asked of it
    app = build_app(nothing, Words(), name="small", vocabulary=1000, max_model_len=8)
    async with HttpEngine("http://engine", transport=httpx.ASGITransport(cast("Any", app))) as engine:
        prompt = await engine.encode("12345678")
        with pytest.raises(PromptTooLong) as caught:
            await engine.generate(prompt, max_tokens=4, temperature=1.0, seed=0)
    assert (caught.value.kind, caught.value.tokens, caught.value.context) == ("prompt_too_long", 8, 8)


async def test_an_answer_cut_by_the_context_is_rejected() -> None:
    small = SmallEngine(World(), 30)
    async with small.open() as engine:
        prompt = await engine.encode("Which idea? " + "x" * 10)
        with pytest.raises(PromptTooLong) as caught:
            await engine.generate(prompt, max_tokens=200, temperature=1.0, seed=0)
        assert (caught.value.tokens, caught.value.context) == (22, 30)
        assert (await engine.generate(prompt, max_tokens=8, temperature=1.0, seed=0)).finish in ("stop", "length")


async def driven(folder: Path, context: int) -> list[str]:
    """Drive a run with an engine of this context to its end. Returns the committed prompts."""
    async with simulated(folder, SHAPE, World(seed=2)) as run:
        small = SmallEngine(run.world, context)
        async with small.open() as engine:
            change_stages(run.core, engine=engine)
            with anyio.fail_after(100):
                assert await drive(run.core) == "done"
        rows = await run.store.query("select prompt_tokens, prompt_ids from advisor_calls order by lease, ordinal")
        return [bytes(unpack_ids(row["prompt_ids"], row["prompt_tokens"])).decode() for row in rows]


SHAPE = settings(stop__candidates=24, search__threads=4, learner__group_size=4, advisor__max_tokens=256)


@pytest.mark.long
@pytest.mark.fault("Advisor and engine", "prompt beyond the context")
async def test_prompts_that_outgrow_the_context_are_cut_and_the_run_goes_on(tmp_path: Path) -> None:
    prompts = await driven(tmp_path, 780)
    assert max(map(len, prompts)) < 780
    assert any("characters of the middle are left out" in prompt for prompt in prompts)


@pytest.mark.long
@pytest.mark.fault("Advisor and engine", "prompt beyond the context")
async def test_a_prompt_that_no_cut_makes_fit_ends_its_lease_and_only_too_many_in_a_row_end_the_run(
    tmp_path: Path,
) -> None:
    async with simulated(tmp_path, SHAPE, World(seed=2)) as run:
        small = SmallEngine(run.world, 300)
        async with small.open() as engine:
            change_stages(run.core, engine=engine)
            with pytest.raises(GaveUp) as caught, anyio.fail_after(60):
                await drive(run.core)
        assert "all left out and cut that can be" in str(caught.value)
        assert "an advisor with a longer context" in str(caught.value)
        before = await run.store.load()
        aborted = dict(before.closings)["aborted"]
        assert aborted >= SHAPE.faults.max_aborted
        faults = await run.store.query("select lease from faults where kind = 'prompt_too_long'")
        assert len({row["lease"] for row in faults}) == aborted, "no lease asks again"
    assert await driven(tmp_path, 4000), "an engine with a longer context goes on"
