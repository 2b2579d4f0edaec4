"""One call is one request to one host, and counts all that it may cost if nobody can know what it did."""

import socket
from typing import get_args

import pytest

from pace_async.errors import InfrastructureFault
from pace_async.providers.base import IMPLEMENTER
from pace_async.providers.bill import billed
from pace_async.providers.chat import open_chats
from pace_async.providers.failures import CallFailed
from tests.doubles.implementers import PlainLedger
from tests.support.implementing import configured
from tests.support.raw_provider import Break, answering, breaking, ollama_body, openai_body

MESSAGES = ({"role": "system", "content": "You write code."}, {"role": "user", "content": "Change the program."})
PATHS = {
    "openai/local": "/v1",
    "anthropic/claude-sonnet-4-5": "",
    "gemini/gemini-2.5-pro": "",
    "xai/grok-4": "/v1",
    "mistral/mistral-large-latest": "/v1",
    "deepseek/deepseek-chat": "",
    "groq/llama-3.3-70b-versatile": "/v1",
    "openrouter/openai/gpt-4o": "/v1",
    "hosted_vllm/own": "/v1",
    "ollama_chat/own": "",
    "nvidia_nim/own": "/v1",
    "zai/glm-4.6": "/v1",
    "azure/own": "",
    "openai/gpt-5-codex": "/v1",
    "cohere_chat/command-a-03-2025": "",
    "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0": "",
}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        "OPENAI",
        "ANTHROPIC",
        "GEMINI",
        "XAI",
        "MISTRAL",
        "DEEPSEEK",
        "GROQ",
        "OPENROUTER",
        "COHERE",
        "NVIDIA_NIM",
        "ZAI",
        "AZURE",
    ]:
        monkeypatch.setenv(f"{name}_API_KEY", "any-word-will-do")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "any-word-will-do")
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")
    monkeypatch.setenv("AZURE_API_VERSION", "2024-10-21")


async def failing(model: str, base: str) -> tuple[CallFailed, PlainLedger]:
    """One call that fails, and the ledger after it."""
    ledger = PlainLedger()
    config = configured(base, implementer__model=model).implementer
    async with open_chats([model], config) as chats:
        with pytest.raises(CallFailed) as caught:
            async with billed(chats[0], ledger, IMPLEMENTER, 1, MESSAGES, 1000):
                await chats[0].ask(MESSAGES, max_tokens=1000, timeout_s=60.0)
    return caught.value, ledger


@pytest.mark.parametrize("how", get_args(Break))
@pytest.mark.parametrize("model", PATHS)
async def test_a_connection_that_breaks_after_the_request_is_one_request_at_its_whole_reservation(
    model: str, how: Break
) -> None:
    with breaking(how) as (url, taken):
        failure, ledger = await failing(model, url + PATHS[model])
    assert len(taken) == 1
    assert failure.kind == ("invalid_answer" if how == "close in a body of no length" else "cut_stream")
    assert not failure.permanent
    assert [call.cost_usd for call in ledger.calls] == [ledger.reserved[1]]
    assert ledger.reserved[1] > 0


@pytest.mark.parametrize("model", ["openai/local", "anthropic/claude-sonnet-4-5", "ollama_chat/own"])
async def test_a_connection_that_is_refused_costs_nothing(model: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        failure, ledger = await failing(model, f"http://127.0.0.1:{free.getsockname()[1]}{PATHS[model]}")
    assert failure.kind == "refused_connection"
    assert [call.cost_usd for call in ledger.calls] == [0.0]


@pytest.mark.parametrize(
    ("status", "unknown"),
    [(408, True), (502, True), (504, True), (520, True), (524, True), (429, False), (500, False), (503, False)],
)
@pytest.mark.parametrize("model", ["openai/local", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-pro", "zai/own"])
async def test_a_gateway_that_no_longer_waits_leaves_the_cost_unknown(model: str, status: int, unknown: bool) -> None:
    with answering(lambda _: (status, b"<html>the gateway says no</html>")) as (url, asked):
        failure, ledger = await failing(model, url + PATHS.get(model, "/v1"))
    assert len(asked.bodies) == 1
    assert not failure.permanent
    assert ledger.calls[0].cost_usd == (ledger.reserved[1] if unknown else 0.0)


@pytest.mark.parametrize("status", [400, 405, 413, 415, 422, 501])
async def test_a_form_that_the_provider_does_not_take_is_no_failure_that_passes(status: int) -> None:
    with answering(lambda _: (status, {"error": {"message": "not like this"}})) as (url, _):
        failure, _ = await failing("openai/local", url + "/v1")
    assert (failure.kind, failure.permanent, failure.charged) == ("bad_request", True, False)
    assert "not like this" in failure.detail


@pytest.mark.parametrize("model", ["ollama_chat/own", "ollama/own"])
async def test_nobody_but_the_provider_is_asked_about_a_model(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form = ollama_body("ready", "stop") | {"response": "ready"}
    with answering(lambda _: (200, {})) as (other, asked_other), answering(lambda _: (200, form)) as (url, asked):
        monkeypatch.setenv("OLLAMA_API_BASE", other)
        config = configured(
            url,
            implementer__model=model,
            implementer__price_per_million_in=None,
            implementer__price_per_million_out=None,
        ).implementer
        async with open_chats([model], config) as chats:
            answer = await chats[0].ask(MESSAGES, max_tokens=1000, timeout_s=60.0)
    assert answer.text == "ready"
    assert len(asked.bodies) == 1
    assert asked_other.bodies == []


async def test_what_a_body_holds_stays_with_its_call() -> None:
    """Two failures of the same client, of which the second has no body at all."""
    turns = iter([(200, openai_body("half", "error"))])
    with answering(lambda _: next(turns, (500, b""))) as (url, _):
        config = configured(url + "/v1").implementer
        async with open_chats(["openai/local"], config) as chats:
            kinds: list[str] = []
            for _ in range(2):
                with pytest.raises(InfrastructureFault) as caught:
                    await chats[0].ask(MESSAGES, max_tokens=1000, timeout_s=60.0)
                kinds.append(caught.value.kind)
    assert kinds == ["unfinished", "server_error"]
