"""The check before a run asks as the run will, and what a provider refuses for its form ends a run soon."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from pace_async.errors import CandidateFault, GaveUp, InfrastructureFault, UsageError
from pace_async.providers.base import ADVISOR
from pace_async.providers.chat import open_chats
from pace_async.providers.failures import CallFailed, is_answer_too_long
from pace_async.providers.preflight import check_models, refuse_unless_ready
from pace_async.providers.prices import listed_price
from pace_async.runtime.start.machine_checks import advisors, implementers
from tests.support.implementing import configured, implement, implementing
from tests.support.raw_provider import answering, anthropic_body, openai_body

NO_PRICE = {"implementer__price_per_million_in": None, "implementer__price_per_million_out": None}
WORDS = {
    "vLLM before": "This model's maximum context length is 8192 tokens. However, you requested 9500 tokens (1308 in "
    "the messages, 8192 in the completion). Please reduce the length of the messages or completion.",
    "vLLM": "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 8192 "
    "tokens and your request has 1308 input tokens (8192 > 8192 - 1308).",
    "OpenAI": "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, whereas you provided "
    "8192.",
    "OpenRouter": "This endpoint's maximum context length is 9000 tokens. However, you requested about 9500 tokens "
    "(1308 of text input, 8192 in the output). Please reduce the length of either one.",
    "Anthropic": "input length and `max_tokens` exceed context limit: 1,308 + 8,192 > 9,000, decrease input length",
    "TGI": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 1308 `inputs` tokens and 8192 `max_new_tokens`",
}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ["OPENAI", "ANTHROPIC", "OPENROUTER", "CODESTRAL", "PERPLEXITYAI"]:
        monkeypatch.setenv(f"{name}_API_KEY", "any-word-will-do")


def refusal(message: str, status: int = 400) -> tuple[int, object]:
    return status, {"error": {"message": message, "type": "invalid_request_error", "code": status}}


def without_system(body: Mapping[str, Any]) -> tuple[int, object]:
    """A server whose chat template knows no system message."""
    system = any(message["role"] == "system" for message in body["messages"])
    return refusal("System role not supported") if system else (200, openai_body("ready"))


def thinking(body: Mapping[str, Any]) -> tuple[int, object]:
    """Anthropic's rule for the longest answer of a model that thinks."""
    asked: Mapping[str, int] = body.get("thinking") or {}
    if asked.get("budget_tokens", 0) >= body["max_tokens"]:
        error = {
            "type": "invalid_request_error",
            "message": "`max_tokens` must be greater than `thinking.budget_tokens`",
        }
        return 400, {"type": "error", "error": error}
    return 200, anthropic_body("ready", "end_turn")


async def test_the_check_has_the_messages_the_options_and_the_longest_answer_of_the_run_s_calls() -> None:
    with answering(lambda _: (200, openai_body("ready"))) as (url, asked):
        config = configured(
            url + "/v1",
            implementer__max_tokens=5000,
            implementer__options={"top_p": 0.5},
            advisor__model="api:openai/own",
            advisor__api_base=url + "/v1",
            advisor__max_tokens=300,
            advisor__max_tokens_by_call={"propose": 700},
        )
        refuse_unless_ready(await check_models(["openai/local"], config.implementer), config.stop)
        refuse_unless_ready(await check_models(["openai/own"], config.advisor.of_calls(), ADVISOR), config.stop)
    of_implementer, of_advisor = asked.bodies
    assert [message["role"] for message in of_implementer["messages"]] == ["system", "user"]
    assert (of_implementer["max_tokens"], of_implementer["top_p"]) == (5000, 0.5)
    assert [message["role"] for message in of_advisor["messages"]] == ["system", "user"]
    assert (of_advisor["max_tokens"], of_advisor["temperature"]) == (700, 1.0)


@pytest.mark.parametrize(
    "options",
    [{"reasoning_effort": "high"}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}],
)
async def test_a_model_that_has_room_to_think_in_a_run_has_it_in_the_check(options: dict[str, object]) -> None:
    model = "anthropic/claude-sonnet-4-5"
    with answering(thinking) as (url, _):
        config = configured(url, implementer__model=model, implementer__max_tokens=8192, implementer__options=options)
        found = await check_models([model], config.implementer)
        refuse_unless_ready(found, config.stop)
        small = configured(url, implementer__model=model, implementer__max_tokens=1024, implementer__options=options)
        with pytest.raises(UsageError, match=r"bad request .*implementer\.max_tokens"):
            refuse_unless_ready(await check_models([model], small.implementer), small.stop)


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
async def test_a_longest_answer_that_no_context_has_room_for_is_a_setting_s_fault(words: str) -> None:
    def answer(body: Mapping[str, Any]) -> tuple[int, object]:
        return refusal(words) if body["max_tokens"] > 4096 else (200, openai_body("ready"))

    with answering(answer) as (url, _):
        config = configured(url + "/v1", implementer__max_tokens=8192)
        with pytest.raises(UsageError, match=r"bad request .*8,?192.*see whether .*implementer\.max_tokens"):
            refuse_unless_ready(await check_models(["openai/local"], config.implementer), config.stop)
        async with open_chats(["openai/local"], config.implementer) as chats:
            with pytest.raises(CallFailed) as caught:
                await chats[0].ask(({"role": "user", "content": "long"},), max_tokens=8192, timeout_s=60.0)
    assert caught.value.kind == "bad_request"


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "maximum context length is 16384 tokens and your request has 13084 input tokens; max_tokens is 8192",
        "input length and `max_tokens` exceed context limit: 188240 + 8192 > 190000",
        "maximum context length is 16384 tokens. you requested about 17000 (8808 of text input, 8192 in the output)",
        "prompt is too long: 208310 tokens > 200000 maximum",
        "Input is too long for requested model.",
    ],
)
def test_a_prompt_that_takes_more_than_the_longest_answer_is_too_long_itself(words: str) -> None:
    assert not is_answer_too_long(words, 8192)


async def test_a_model_to_which_the_tiny_question_is_too_long_is_refused() -> None:
    with answering(lambda _: refusal("prompt is too long: the maximum context length is 16 tokens")) as (url, _):
        config = configured(url + "/v1")
        with pytest.raises(UsageError, match="maximum context length is 16 tokens"):
            refuse_unless_ready(await check_models(["openai/local"], config.implementer), config.stop)


async def test_a_model_that_takes_no_system_message_is_refused_before_the_run_and_by_doctor() -> None:
    with answering(without_system) as (url, _):
        config = configured(
            url + "/v1", advisor__model="api:openai/own", advisor__api_base=url + "/v1", learner__objective="none"
        )
        with pytest.raises(UsageError, match=r"bad request .*System role not supported"):
            refuse_unless_ready(await check_models(["openai/local"], config.implementer), config.stop)
        rows = [*await implementers(config.implementer), *await advisors(config.advisor)]
    assert [(row.ok, "System role not supported" in row.found) for row in rows] == [(False, True), (False, True)]


@pytest.mark.parametrize(
    ("status", "words", "remedy"),
    [
        (400, "Trying to keep the first 6103 tokens when the context overflows", "implementer.options"),
        (400, "System role not supported", "implementer.max_tokens"),
        (402, "This request requires more credits, or fewer max_tokens", "top it up"),
        (401, "Incorrect key", "put a valid key"),
    ],
)
async def test_a_failure_that_no_retry_helps_ends_a_run_within_a_few_calls_by_the_provider_s_sentence(
    status: int, words: str, remedy: str
) -> None:
    with answering(lambda _: refusal(words, status)) as (url, asked):
        config = configured(url + "/v1", faults__patience_s=100_000.0)
        async with implementing(config) as (implementer, _):
            with anyio.fail_after(100):
                for lease in (1, 2):
                    with pytest.raises((InfrastructureFault, GaveUp)) as caught:  # the first may be of one prompt
                        await implement(implementer, lease)
                    if isinstance(caught.value, GaveUp):
                        break
    assert isinstance(caught.value, GaveUp)
    assert words in str(caught.value)
    assert remedy in str(caught.value)
    assert len(asked.bodies) <= 4


TOO_LONG = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."


async def test_a_context_that_holds_no_prompt_of_the_task_ends_the_run_after_three_and_one_long_prompt_does_not() -> (
    None
):
    turns = iter([refusal(TOO_LONG)] * 3)
    with answering(lambda _: next(turns)) as (url, _):
        async with implementing(configured(url + "/v1")) as (implementer, _):
            for lease in (1, 2):
                with pytest.raises(CandidateFault, match="prompt_too_long"):
                    await implement(implementer, lease)
            with pytest.raises(GaveUp, match="maximum context length is 4096 tokens"):
                await implement(implementer, 3)
    later = iter([(200, openai_body("no code")), *[refusal(TOO_LONG)] * 4])
    with answering(lambda _: next(later)) as (url, _):
        async with implementing(configured(url + "/v1")) as (implementer, _):
            for lease in range(1, 6):
                with pytest.raises(CandidateFault):
                    await implement(implementer, lease)


async def test_after_its_patience_a_run_names_the_last_failure() -> None:
    with answering(lambda _: refusal("the disk of the server is full", 500)) as (url, _):
        config = configured(url + "/v1", implementer__deadline_s=0.1, faults__patience_s=0.2)
        async with implementing(config) as (implementer, _):
            with anyio.fail_after(100), pytest.raises(GaveUp, match="the disk of the server is full"):
                await implement(implementer)


@pytest.mark.parametrize(
    ("model", "option", "value"),
    [
        ("openai/gpt-5", "temperature", 0.7),
        ("openai/gpt-5", "stop", ["@@"]),
        ("openai/gpt-4.1", "reasoning_effort", "high"),
        ("openai/my-model", "verbosity", "low"),
    ],
)
async def test_an_option_that_a_model_does_not_take_is_refused_by_name_unless_the_options_say_to_leave_it_out(
    model: str, option: str, value: object
) -> None:
    with answering(lambda _: (200, openai_body("ready"))) as (url, asked):
        config = configured(url + "/v1", implementer__model=model, implementer__options={option: value})
        found = await check_models([model], config.implementer)
        with pytest.raises(UsageError, match=rf"unsupported option .*{option}.*implementer\.options.*drop_params"):
            refuse_unless_ready(found, config.stop)
        assert asked.bodies == []
        options = {option: value, "drop_params": True}
        lenient = configured(url + "/v1", implementer__model=model, implementer__options=options)
        refuse_unless_ready(await check_models([model], lenient.implementer), lenient.stop)
    assert option not in asked.bodies[0]


async def test_the_usual_temperature_of_an_advisor_is_left_out_where_a_model_takes_none() -> None:
    with answering(lambda _: (200, openai_body("ready"))) as (url, asked):
        config = configured(url + "/v1", advisor__model="api:openai/gpt-5", advisor__api_base=url + "/v1")
        for model in ("openai/gpt-5", "openai/o1", "openai/own"):
            refuse_unless_ready(await check_models([model], config.advisor.of_calls(), ADVISOR), config.stop)
    assert len(asked.bodies) == 3
    assert asked.bodies[2]["temperature"] == 1.0


@pytest.mark.parametrize(
    ("model", "path"), [("openrouter/openrouter/auto", "/api/v1"), ("codestral/codestral-latest", "/v1")]
)
async def test_a_listed_price_of_0_must_be_confirmed_with_a_budget_and_own_prices_go_before_it(
    model: str, path: str
) -> None:
    with answering(lambda _: (200, openai_body("ready"))) as (url, _):
        config = configured(url + path, implementer__model=model, stop__budget=1.0, **NO_PRICE)
        found = await check_models([model], config.implementer)
        with pytest.raises(UsageError, match=r"the listed price is 0.*price_per_million_in"):
            refuse_unless_ready(found, config.stop)
        refuse_unless_ready(found, config.stop.model_copy(update={"budget": None}))
        (row,) = await implementers(config.implementer)
        assert (row.ok, "price_per_million_in" in row.remedy) == (True, True)
        for usd in (20.0, 0.0):
            own = configured(
                url + path,
                implementer__model=model,
                stop__budget=1.0,
                implementer__price_per_million_in=usd,
                implementer__price_per_million_out=usd,
            )
            found = await check_models([model], own.implementer)
            refuse_unless_ready(found, own.stop)
            assert found[0].fact is not None
            assert found[0].fact.cost_usd == pytest.approx(120 * usd / 1e6)


async def test_own_prices_go_before_listed_ones() -> None:
    with answering(lambda _: (200, openai_body("ready"))) as (url, _):
        config = configured(
            url + "/v1", implementer__price_per_million_in=20.0, implementer__price_per_million_out=80.0
        )
        async with open_chats(["openai/gpt-4o"], config.implementer) as chats:
            answer = await chats[0].ask(({"role": "user", "content": "?"},), max_tokens=100, timeout_s=60.0)
            assert chats[0].price is not None
            assert chats[0].price.in_words().startswith("20 USD in, 80 USD out")
    assert answer.cost_usd == pytest.approx((100 * 20 + 20 * 80) / 1e6)


def test_a_reservation_holds_the_fees_of_a_request_and_of_a_search() -> None:
    info: dict[str, object] = {
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 1e-6,
        "input_cost_per_request": 0.005,
        "search_context_cost_per_query": {"search_context_size_low": 0.006, "search_context_size_high": 0.012},
    }
    question = [{"role": "user", "content": ""}]
    worst = {
        searches: price.worst_case(question, 0) for searches in (False, True) if (price := listed_price(info, searches))
    }
    assert worst[False] == pytest.approx(0.005 + 64e-6)
    assert worst[True] == pytest.approx(0.017 + 64e-6)


async def test_a_model_that_searches_reserves_the_fee_that_is_listed() -> None:
    config = configured("http://127.0.0.1:9", **NO_PRICE).implementer
    async with open_chats(["perplexity/sonar", "openai/gpt-4o"], config) as chats:
        searching, writing = (chat.price for chat in chats)
    assert searching is not None
    assert writing is not None
    assert searching.fees_at_most > 0
    assert writing.fees_at_most == 0
