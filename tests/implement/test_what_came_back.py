"""What providers send back, in their own forms: how an answer ended, its text, and its tokens."""

from collections.abc import Callable
from typing import Any

import pytest

from pace_async.errors import CandidateFault
from pace_async.implement.base import Experiment, Unusable
from pace_async.providers.base import ChatAnswer
from pace_async.providers.chat import open_chats
from pace_async.providers.failures import CallFailed
from pace_async.providers.received import received
from tests.support.implementing import PARENT, TASK, configured, implement, implementing
from tests.support.raw_provider import (
    answering,
    anthropic_body,
    bedrock_body,
    cohere_body,
    gemini_body,
    ollama_body,
    openai_body,
)

MESSAGES = ({"role": "system", "content": "You write code."}, {"role": "user", "content": "Change the program."})
EDIT = '<<<<<<< SEARCH\nlayout = "rings"\n=======\nlayout = "hex"\n>>>>>>> REPLACE\n'
USD_IN, USD_OUT = 2e-6, 8e-6
"""Prices of a token in `configured`."""
FORMS: dict[str, tuple[str, Callable[[str, str], dict[str, Any]]]] = {
    "openai/local": ("/v1", openai_body),
    "openrouter/some/model": ("/v1", openai_body),
    "deepseek/deepseek-chat": ("", openai_body),
    "mistral/mistral-large-latest": ("/v1", openai_body),
    "groq/llama": ("/v1", openai_body),
    "xai/grok-4": ("/v1", openai_body),
    "hosted_vllm/own": ("/v1", openai_body),
    "together_ai/own": ("/v1", openai_body),
    "anthropic/claude-sonnet-4-5": ("", anthropic_body),
    "gemini/gemini-2.5-pro": ("", gemini_body),
    "cohere_chat/command-a-03-2025": ("", cohere_body),
    "ollama_chat/own": ("", ollama_body),
    "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0": ("", bedrock_body),
}
"""Below which path of its address each model is asked, and the form of its answers."""
KEYS = ["OPENAI", "OPENROUTER", "DEEPSEEK", "MISTRAL", "GROQ", "XAI", "TOGETHERAI", "ANTHROPIC", "GEMINI", "COHERE"]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(f"{name}_API_KEY", "any-word-will-do")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "any-word-will-do")
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")


async def asked(model: str, body: object, path: str = "/v1", status: int = 200, **more: object) -> ChatAnswer:
    """The answer of a model whose provider sends this body."""
    with answering(lambda _: (status, body)) as (url, _):
        config = configured(url + path, implementer__model=model, **more)
        async with open_chats([model], config.implementer) as chats:
            return await chats[0].ask(MESSAGES, max_tokens=1000, timeout_s=60.0)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("openai/local", "error"),
        ("openai/local", "abort"),
        ("openai/local", "network_error"),
        ("openai/local", "a word that nobody knows"),
        ("openrouter/some/model", "error"),
        ("deepseek/deepseek-chat", "insufficient_system_resource"),
        ("mistral/mistral-large-latest", "error"),
        ("groq/llama", "error"),
        ("xai/grok-4", "error"),
        ("hosted_vllm/own", "abort"),
        ("together_ai/own", "error"),
        ("anthropic/claude-sonnet-4-5", "pause_turn"),
        ("gemini/gemini-2.5-pro", "MALFORMED_RESPONSE"),
        ("gemini/gemini-2.5-pro", "OTHER"),
        ("gemini/gemini-2.5-pro", "FINISH_REASON_UNSPECIFIED"),
        ("cohere_chat/command-a-03-2025", "ERROR"),
        ("cohere_chat/command-a-03-2025", "TIMEOUT"),
        ("ollama_chat/own", "load"),
        ("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", "malformed_model_output"),
    ],
)
async def test_an_answer_that_its_provider_calls_broken_is_a_failure_of_the_service_that_is_paid(
    model: str, reason: str
) -> None:
    path, form = FORMS[model]
    with pytest.raises(CallFailed, match=reason) as caught:
        await asked(model, form("half of an answ", reason), path)
    assert (caught.value.kind, caught.value.permanent) == ("unfinished", False)
    assert caught.value.cost_usd(1.0) == pytest.approx(100 * USD_IN + 20 * USD_OUT)


@pytest.mark.parametrize(
    ("model", "reason", "finish"),
    [
        ("openai/local", "stop", "stop"),
        ("openai/local", None, "stop"),
        ("openai/local", "length", "length"),
        ("openai/local", "content_filter", "content_filter"),
        ("mistral/mistral-large-latest", "model_length", "length"),
        ("together_ai/own", "eos", "stop"),
        ("anthropic/claude-sonnet-4-5", "end_turn", "stop"),
        ("anthropic/claude-sonnet-4-5", "model_context_window_exceeded", "length"),
        ("anthropic/claude-sonnet-4-5", "refusal", "content_filter"),
        ("gemini/gemini-2.5-pro", "STOP", "stop"),
        ("gemini/gemini-2.5-pro", "MAX_TOKENS", "length"),
        ("gemini/gemini-2.5-pro", "SAFETY", "content_filter"),
        ("cohere_chat/command-a-03-2025", "COMPLETE", "stop"),
        ("cohere_chat/command-a-03-2025", "MAX_TOKENS", "length"),
        ("cohere_chat/command-a-03-2025", "ERROR_TOXIC", "content_filter"),
        ("ollama_chat/own", "stop", "stop"),
        ("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", "end_turn", "stop"),
        ("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", "guardrail_intervened", "content_filter"),
    ],
)
async def test_an_answer_that_ended_by_itself_was_cut_or_was_filtered_is_an_answer(
    model: str, reason: str, finish: str
) -> None:
    path, form = FORMS[model]
    answer = await asked(model, form("an answer", reason), path)
    assert (answer.finish, answer.refused) == (finish, finish == "content_filter")
    assert (answer.prompt_tokens, answer.completion_tokens) == (100, 20)


@pytest.mark.parametrize(
    "choice",
    [
        {"finish_reason": None, "error": {"code": 502, "message": "the upstream died"}},
        {"finish_reason": "stop", "error": {"code": 502, "message": "the upstream died"}},
        {"message": None},
        {"message": {"role": "assistant", "content": 7}},
    ],
)
@pytest.mark.parametrize("model", ["openai/local", "openrouter/some/model"])
async def test_a_choice_that_holds_an_error_or_no_message_is_a_failure_of_the_service_that_is_paid(
    model: str, choice: dict[str, object]
) -> None:
    with pytest.raises(CallFailed) as caught:
        await asked(model, openai_body("half", choice=choice))
    assert caught.value.kind == "unfinished"
    assert caught.value.cost_usd(1.0) == pytest.approx(100 * USD_IN + 20 * USD_OUT)


@pytest.mark.parametrize("choices", [None, [], "none"])
async def test_an_answer_without_a_choice_counts_the_whole_reservation(choices: object) -> None:
    with pytest.raises(CallFailed) as caught:
        await asked("openai/local", openai_body("") | {"choices": choices})
    assert caught.value.cost_usd(1.0) == 1.0


async def test_half_an_answer_is_asked_for_again_and_never_becomes_a_program() -> None:
    turns = iter([openai_body(EDIT, "error"), openai_body(EDIT, "abort")])
    with answering(lambda _: (200, next(turns, openai_body(EDIT)))) as (url, _):
        async with implementing(configured(url + "/v1")) as (implementer, ledger):
            made = await implement(implementer)
    assert 'layout = "hex"' in made.program
    assert ledger.outcomes == ["unfinished", "unfinished", "ok"]
    assert [kind for kind, _ in ledger.faults] == ["unfinished", "unfinished"]
    assert [call.completion_tokens for call in ledger.calls] == [20, 20, 20]
    assert [call.cost_usd for call in ledger.calls] == pytest.approx([100 * USD_IN + 20 * USD_OUT] * 3)


async def test_a_deviation_stays_said_when_only_edits_that_failed_come_again() -> None:
    deviation = "Deviation: hex instead of square, because the sites would overlap"
    nowhere = EDIT.replace('layout = "rings"', "layout = nowhere").replace("hex", "more")
    turns = iter(
        [
            openai_body(f"{deviation}\n{EDIT}{nowhere}"),
            openai_body(EDIT.replace("hex", "spiral").replace("rings", "hex")),
        ]
    )
    with answering(lambda _: (200, next(turns))) as (url, _):
        async with implementing(configured(url + "/v1")) as (implementer, ledger):
            with pytest.raises(Unusable) as fault:
                await implement(implementer)
            first = fault.value.tried
            assert first.answer is not None and first.answer.startswith(
                f"{deviation}\n<<<<<<< SEARCH\nlayout = nowhere"
            )
            await implementer.implement(TASK, PARENT, Experiment(1, "a start", "Set layout.", tries=(first,)))
    last = ledger.calls[-1].tried
    assert last is not None and (last.outcome, last.detail) == ("ok", deviation)


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": EDIT}],
        [{"type": "reasoning", "text": "Hm."}, {"type": "output_text", "text": EDIT}],
        [{"type": "text", "text": EDIT[:20]}, {"type": "text", "text": EDIT[20:]}],
        [{"type": "text", "text": {"value": EDIT}}],
        [EDIT],
    ],
)
@pytest.mark.parametrize("model", ["openai/local", "hosted_vllm/own"])
async def test_an_answer_in_parts_is_the_text_of_those_that_are_no_thinking(model: str, content: object) -> None:
    answer = await asked(model, openai_body(content))
    assert answer.text == EDIT
    assert answer.cost_usd == pytest.approx(100 * USD_IN + 20 * USD_OUT)


@pytest.mark.parametrize("content", [None, [], [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]])
async def test_thinking_without_an_answer_is_an_empty_answer_that_is_paid(content: object) -> None:
    with answering(lambda _: (200, openai_body(content))) as (url, _):
        async with implementing(configured(url + "/v1")) as (implementer, ledger):
            with pytest.raises(CandidateFault, match="empty_answer"):
                await implement(implementer)
    assert ledger.calls[0].cost_usd == pytest.approx(100 * USD_IN + 20 * USD_OUT)


@pytest.mark.parametrize(
    ("usage", "output"),
    [
        ({"completion_tokens": 1000, "completion_tokens_details": {"reasoning_tokens": 900}}, 1000),
        ({"total_tokens": 1120, "completion_tokens_details": {"reasoning_tokens": 1000}}, 1020),
        ({"total_tokens": 1120}, 1020),
        ({"completion_tokens_details": {"reasoning_tokens": 1000}}, 1020),
        ({"completion_tokens": 0, "total_tokens": 1000}, 900),
        ({"completion_tokens": 20.0, "prompt_tokens": 100.0}, 20),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, None),
        ({"completion_tokens": None, "total_tokens": None}, None),
        ({"completion_tokens": -20, "total_tokens": 80}, None),
    ],
)
@pytest.mark.parametrize("model", ["openai/local", "xai/own-name", "hosted_vllm/own"])
async def test_all_tokens_beyond_the_prompt_are_output_and_strange_numbers_are_unknown(
    model: str, usage: dict[str, Any], output: int | None
) -> None:
    answer = await asked(model, openai_body("ready", usage=usage))
    if output is None:
        assert answer.cost_usd is None
    else:
        assert answer.completion_tokens == output
        assert answer.cost_usd == pytest.approx(100 * USD_IN + output * USD_OUT)


async def test_reasoning_beside_the_answer_is_paid_at_listed_prices_too() -> None:
    usage = {"total_tokens": 1120, "completion_tokens_details": {"reasoning_tokens": 1000}}
    none: dict[str, Any] = {"implementer__price_per_million_in": None, "implementer__price_per_million_out": None}
    answer = await asked("openai/gpt-5", openai_body("ready", usage=usage), **none)
    assert answer.completion_tokens == 1020
    assert answer.cost_usd == pytest.approx(100 * 1.25e-6 + 1020 * 10e-6)


def test_a_response_that_is_incomplete_or_failed_is_read_from_its_status() -> None:
    litellm_s = openai_body("half")
    incomplete = {"object": "response", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    cut = received(incomplete, litellm_s)
    failed = received({"object": "response", "status": "failed"}, litellm_s)
    whole = received({"object": "response", "status": "completed"}, litellm_s)
    assert cut is not None
    assert failed is not None
    assert whole is not None
    assert (cut.finish, bool(cut.unfinished)) == ("length", False)
    assert failed.unfinished
    assert (whole.finish, whole.unfinished) == ("stop", "")
