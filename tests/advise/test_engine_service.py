"""The embedded engine through its client: what it samples is what the model says."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
import pytest

from pace_async.advise.base import Completion, PromptTooLong
from pace_async.advise.chat import TextFormat
from pace_async.advise.client import HttpEngine, special_token_ids
from pace_async.advise.engines.managed import EngineHandle, managed_engine
from pace_async.advise.engines.wire import SamplingParams
from pace_async.errors import InfrastructureFault
from pace_async.events import TokenSpan
from tests.support.engine_models import END, plain_logprobs, save_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("engine") / "weights", seed=0, end_weight=50.0)


@pytest.fixture(scope="module")
async def handle(model: Path) -> AsyncIterator[EngineHandle]:
    async with managed_engine(EngineHandle(log=model.parent / "engine.log", max_rows=8), model, 3) as handle:
        yield handle


@pytest.fixture
async def engine(handle: EngineHandle, model: Path) -> AsyncIterator[HttpEngine]:
    async with HttpEngine(handle.url, text=TextFormat(special_token_ids(model)), timeout_s=60.0) as engine:
        yield engine


def prompt(length: int, start: int = 0) -> tuple[int, ...]:
    return tuple((start + 37 * i) % 256 for i in range(length))


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.3])
async def test_logprobs_are_those_of_a_plain_forward_pass_at_that_temperature(
    engine: HttpEngine, model: Path, temperature: float
) -> None:
    answer = await engine.generate(prompt(40), max_tokens=60, temperature=temperature, seed=1)
    assert answer.logprobs == pytest.approx(plain_logprobs(model, prompt(40), answer.token_ids, temperature), abs=1e-4)


async def test_an_answer_goes_on_past_its_end_if_asked_to(engine: HttpEngine, model: Path) -> None:
    short = await engine.sample(prompt(40), SamplingParams(max_tokens=200, seed=3))
    long = await engine.sample(prompt(40), SamplingParams(max_tokens=200, seed=3, ignore_eos=True))
    assert (short.finish, long.finish) == ("stop", "length")
    assert short.token_ids[-1] == END
    assert len(short.token_ids) < len(long.token_ids) == 200
    assert long.token_ids[: len(short.token_ids)] == short.token_ids
    assert long.logprobs == pytest.approx(plain_logprobs(model, prompt(40), long.token_ids, 1.0), abs=1e-4)


async def test_an_answer_in_a_full_batch_equals_the_answer_alone(engine: HttpEngine) -> None:
    lengths = [1, 2, 17, 63, 64, 120, 255, 256, 257, 300, 400, 31]  # more than there are rows
    together: dict[int, Completion] = {}

    async def ask(seed: int, into: dict[int, Completion]) -> None:
        ids = prompt(lengths[seed], start=seed)
        into[seed] = await engine.generate(ids, max_tokens=10 + 9 * seed, temperature=1.0, seed=seed)

    async with anyio.create_task_group() as tasks:
        for seed in range(len(lengths)):
            tasks.start_soon(ask, seed, together)
    for seed in range(len(lengths)):
        alone: dict[int, Completion] = {}
        await ask(seed, alone)
        assert together[seed].token_ids == alone[seed].token_ids
        assert together[seed].logprobs == pytest.approx(alone[seed].logprobs, abs=1e-4)


async def test_the_same_seed_gives_the_same_answer_and_another_seed_another_one(engine: HttpEngine) -> None:
    answers = [await engine.generate(prompt(20), max_tokens=30, temperature=1.0, seed=seed) for seed in (5, 5, 6)]
    assert answers[0] == answers[1]
    assert answers[0].token_ids != answers[2].token_ids


@pytest.mark.long
async def test_answers_follow_the_distribution_that_their_logprobs_state(engine: HttpEngine, model: Path) -> None:
    counts: dict[int, int] = {}
    first: dict[int, float] = {}

    async def ask(seed: int) -> None:
        answer = await engine.generate(prompt(9), max_tokens=1, temperature=1.0, seed=seed)
        counts[answer.token_ids[0]] = counts.get(answer.token_ids[0], 0) + 1
        first[answer.token_ids[0]] = answer.logprobs[0]

    draws = 200
    async with anyio.create_task_group() as tasks:
        for seed in range(draws):
            tasks.start_soon(ask, seed)
    commonest = max(counts, key=counts.__getitem__)
    expected = 2.718281828459045 ** first[commonest]
    deviation = (expected * (1 - expected) / draws) ** 0.5
    assert abs(counts[commonest] / draws - expected) < 4 * deviation


async def test_an_answer_ends_with_the_end_token_or_at_max_tokens(engine: HttpEngine) -> None:
    answers = [await engine.generate(prompt(12), max_tokens=40, temperature=1.0, seed=seed) for seed in range(12)]
    assert {answer.finish for answer in answers} == {"stop", "length"}
    for answer in answers:
        assert END not in answer.token_ids[:-1]
        assert (answer.token_ids[-1] == END) == (answer.finish == "stop")
        assert answer.finish == "stop" or len(answer.token_ids) == 40
        assert answer.spans == (TokenSpan(3, 0, len(answer.token_ids)),)


async def test_an_answer_stops_where_the_models_positions_end(engine: HttpEngine) -> None:
    answer = await engine.generate(prompt(2046), max_tokens=2, temperature=1.0, seed=0)
    assert len(answer.token_ids) <= 2
    with pytest.raises(PromptTooLong) as cut:
        await engine.generate(prompt(2046), max_tokens=30, temperature=1.0, seed=0)
    assert (cut.value.tokens, cut.value.context) == (2046, 2048)
    with pytest.raises(InfrastructureFault, match=r"engine_refused.*at most 2047"):
        await engine.generate(prompt(2048), max_tokens=1, temperature=1.0, seed=0)
    await engine.encode("now it is known how long the context is")
    with pytest.raises(PromptTooLong, match="2048 tokens in a context of 2048"):
        await engine.generate(prompt(2048), max_tokens=1, temperature=1.0, seed=0)


async def test_text_goes_to_ids_and_back_without_special_tokens(engine: HttpEngine) -> None:
    ids = await engine.encode('Change layout from "grid" to "hex". — ünïcode\n')
    assert await engine.decode((*ids, END)) == 'Change layout from "grid" to "hex". — ünïcode\n'


@pytest.mark.fault("Advisor and engine", "chat-template tokens inside a program are data")
@pytest.mark.parametrize(
    "text", ["<end>", "a <end> b<begin><end>", "<<end>end>", "<end" * 3 + ">", "x = '<begin>' # <e"]
)
async def test_a_special_token_spelt_in_a_text_is_data_and_decodes_unchanged(engine: HttpEngine, text: str) -> None:
    ids = await engine.encode(text)
    assert not {END, END + 1} & set(ids)
    assert await engine.decode(ids) == text


async def test_a_token_that_the_model_does_not_know_is_refused(engine: HttpEngine) -> None:
    with pytest.raises(InfrastructureFault, match="engine_refused"):
        await engine.generate((1, 300), max_tokens=4, temperature=1.0, seed=0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sampling_params": {"max_tokens": 4, "top_p": 0.9}},
        {"sampling_params": {"max_tokens": 4, "min_p": 0.1}},
        {"sampling_params": {"max_tokens": 4, "temperature": 0}},
        {"sampling_params": {"max_tokens": 0}},
        {"sampling_params": {"max_tokens": 4}, "features": None},
        {"sampling_params": {"max_tokens": 4}, "token_ids": []},
    ],
)
async def test_a_request_that_cannot_be_served_exactly_is_refused(
    handle: EngineHandle, wrong: dict[str, object]
) -> None:
    async with httpx.AsyncClient(base_url=handle.url, timeout=60.0) as http:
        response = await http.post("/inference/v1/generate", json={"token_ids": [1, 2], **wrong})
    assert response.status_code == 400
    assert response.json()["error"]["message"]


async def test_a_request_whose_client_left_is_dropped(handle: EngineHandle, engine: HttpEngine) -> None:
    async with httpx.AsyncClient(base_url=handle.url, timeout=60.0) as http:

        async def load() -> int:
            return (await http.get("/load")).json()["server_load"]

        with anyio.fail_after(60.0):
            await http.post("/pause?mode=keep&clear_cache=true")
            async with anyio.create_task_group() as tasks:
                for seed in range(3):
                    tasks.start_soon(
                        lambda seed=seed: engine.generate((1, 2), max_tokens=9, temperature=1.0, seed=seed)
                    )
                while await load() < 3:
                    pass
                tasks.cancel_scope.cancel()
            await http.post("/resume")
            while await load() > 0:
                pass
            assert await engine.generate((1, 2), max_tokens=9, temperature=1.0, seed=0)


async def test_nothing_is_sampled_while_paused_and_everything_afterwards(handle: EngineHandle) -> None:
    async with (
        HttpEngine(handle.url, timeout_s=60.0) as engine,
        httpx.AsyncClient(base_url=handle.url, timeout=60.0) as http,
    ):
        answers: list[Completion] = []

        async def ask() -> None:
            answers.append(await engine.generate((1, 2, 3), max_tokens=9, temperature=1.0, seed=4))

        await http.post("/pause?mode=keep&clear_cache=true")
        assert (await http.get("/is_paused")).json() == {"is_paused": True}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            with anyio.fail_after(60.0):
                while (await http.get("/load")).json()["server_load"] < 1:
                    pass
            assert answers == []
            await http.post("/resume")
        assert (await http.get("/is_paused")).json() == {"is_paused": False}
        assert len(answers) == 1


async def test_the_engine_says_what_it_serves(handle: EngineHandle, engine: HttpEngine, model: Path) -> None:
    assert await engine.served_version() == 3
    async with httpx.AsyncClient(base_url=handle.url, timeout=60.0) as http:
        assert (await http.get("/health")).status_code == 200
        assert (await http.get("/v1/models")).json()["data"][0] == {
            "id": model.name,
            "object": "model",
            "owned_by": "pace",
            "max_model_len": 2048,
        }
        assert (await http.post("/reset_prefix_cache")).json() == {"success": True}
