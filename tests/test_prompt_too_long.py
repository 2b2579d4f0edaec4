"""A prompt that the advisor's context cannot hold ends the run with a sentence, because no retry can help."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
import pytest

from pace_async.advise.base import PromptTooLong
from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.server import build_app
from pace_async.errors import UsageError
from pace_async.runtime.supervisor import drive
from pace_async.simulate.stages import SimulatedEngine, World
from tests.simulated import settings, simulated

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


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
    nothing: Any = None  # there is no model: nothing must be asked of it
    app = build_app(nothing, Words(), name="small", vocabulary=1000, max_model_len=8)
    async with HttpEngine("http://engine", transport=httpx.ASGITransport(cast("Any", app))) as engine:
        prompt = await engine.encode("12345678")
        with pytest.raises(PromptTooLong) as caught:
            await engine.generate(prompt, max_tokens=4, temperature=1.0, seed=0)
    assert (caught.value.kind, caught.value.tokens, caught.value.context) == ("prompt_too_long", 8, 8)


async def test_an_answer_that_the_context_cut_is_no_answer() -> None:
    small = SmallEngine(World(), 30)
    async with small.open() as engine:
        prompt = await engine.encode("Which idea? " + "x" * 10)
        with pytest.raises(PromptTooLong) as caught:
            await engine.generate(prompt, max_tokens=200, temperature=1.0, seed=0)
        assert (caught.value.tokens, caught.value.context) == (22, 30)
        assert (await engine.generate(prompt, max_tokens=8, temperature=1.0, seed=0)).finish in ("stop", "length")


@pytest.mark.fault("Advisor and engine", "prompt beyond the context")
async def test_a_run_whose_prompts_outgrow_the_context_ends_with_a_sentence_and_keeps_what_is_committed(
    tmp_path: Path,
) -> None:
    config = settings(stop__candidates=48, search__threads=4, learner__group_size=4, advisor__max_tokens=256)
    async with simulated(tmp_path, config, World(seed=2)) as run:
        small = SmallEngine(run.world, 780)
        async with small.open() as engine:
            object.__setattr__(run.core.stages, "engine", engine)
            with pytest.raises(UsageError) as caught, anyio.fail_after(60):
                await drive(run.core)
        rows = await run.store.query("select lease, detail from faults where kind = 'prompt_too_long'")
        tokens = {row["lease"]: row["detail"].split()[0] for row in rows}
        assert len(tokens) == len(rows) <= 4, "each island meets it at most once, and none asks again"
        said = re.match(
            r"The advisor's prompt of lease (\d+) has (\d+) tokens, all left out that can be, and its context of 780",
            str(caught.value),
        )
        assert said is not None
        lease = int(said[1])
        assert tokens[lease] == said[2]
        assert "an advisor with a longer context" in str(caught.value)
        assert caught.value.exit_code == 2
        before = await run.store.load()
        assert before.state == "gave_up"
        assert before.candidates > 0
        assert lease in {one.lease for one in before.leases}
    async with simulated(tmp_path, config, World(seed=2)) as run:  # an engine with a longer context
        with anyio.fail_after(60):
            assert await drive(run.core) == "done"
        after = await run.store.load()
        assert after.candidates == 48
        assert dict(after.closings)["aborted"] == 0
