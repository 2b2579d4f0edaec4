"""What every engine must do: the embedded one behind its client, the simulated one, and the doubles of tests."""

import math
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import anyio
import pytest

from pace_async.advise.base import Completion, Engine
from pace_async.advise.client import HttpEngine
from pace_async.publish.file import FilePublisher
from pace_async.simulate.stages import SimulatedEngine, World
from tests.doubles.engine_servers import EngineServer
from tests.doubles.engines import ScriptedEngine, WordsOfItsOwn
from tests.support.engine_models import save_tiny_model

QUESTION = "What should be tried next?"
VERSION = 1


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("weights") / "1", seed=1)


@pytest.fixture(scope="module")
def server(weights: Path) -> Iterator[EngineServer]:
    server = EngineServer(weights)
    yield server
    server.kill()


@pytest.fixture(params=["embedded", "simulated", "scripted", "own words"])
async def engine(request: pytest.FixtureRequest) -> AsyncGenerator[Engine]:
    if request.param == "simulated":
        yield SimulatedEngine(World(served=VERSION))
        return
    if request.param == "scripted":
        yield ScriptedEngine(*["Idea 1\nHypothesis: add 7"] * 20, version=VERSION)
        return
    server: EngineServer = request.getfixturevalue("server")
    async with FilePublisher(server.url) as publisher:
        await publisher.publish(VERSION, request.getfixturevalue("weights"))
    async with HttpEngine(server.url, timeout_s=60.0) as client:
        yield client if request.param == "embedded" else WordsOfItsOwn(client)


async def ask(engine: Engine, text: str = QUESTION, max_tokens: int = 200, seed: int = 0) -> Completion:
    return await engine.generate(await engine.encode(text), max_tokens=max_tokens, temperature=1.0, seed=seed)


async def test_each_token_of_an_answer_has_a_logprob_and_the_version_that_sampled_it(engine: Engine) -> None:
    answer = await ask(engine)
    assert 0 < len(answer.token_ids) <= 200
    assert len(answer.logprobs) == len(answer.token_ids)
    assert all(math.isfinite(logprob) and logprob <= 0.0 for logprob in answer.logprobs)
    assert [version for span in answer.spans for version in [span.version] * (span.end - span.start)] == (
        [VERSION] * len(answer.token_ids)
    )
    assert [span.start for span in answer.spans] == [0, *[span.end for span in answer.spans[:-1]]]


async def test_a_prompt_has_the_same_tokens_each_time_and_an_answer_can_be_read(engine: Engine) -> None:
    assert await engine.encode(QUESTION) == await engine.encode(QUESTION)
    assert await engine.encode(QUESTION) != await engine.encode(QUESTION + " Or not?")
    answer = await ask(engine)
    assert await engine.decode(answer.token_ids) == await engine.decode(answer.token_ids) != ""


async def test_an_answer_that_does_not_fit_ends_at_max_tokens_and_reports_it(engine: Engine) -> None:
    answer = await ask(engine, max_tokens=4)
    assert (len(answer.token_ids), answer.finish) == (4, "length")


async def test_a_request_in_a_batch_gets_the_same_answer_as_alone(engine: Engine) -> None:
    together: dict[int, Completion] = {}

    async def keep(seed: int) -> None:
        together[seed] = await ask(engine, seed=seed, max_tokens=40)

    async with anyio.create_task_group() as tasks:
        for seed in range(4):
            tasks.start_soon(keep, seed)
    for seed, answer in together.items():
        assert answer.token_ids == (await ask(engine, seed=seed, max_tokens=40)).token_ids
