"""The client trusts no answer: what is not whole is a fault of the infrastructure."""

import json
from typing import Any

import anyio
import httpx
import pytest

from pace_async.advise.base import Completion
from pace_async.advise.client import HttpEngine, special_token_ids
from pace_async.errors import InfrastructureFault
from pace_async.events import TokenSpan
from tests.support.engine_models import END, save_tiny_model


def choice(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "index": 0,
        "finish_reason": "length",
        "stop_reason": None,
        "token_ids": [4, 5, 6],
        "logprobs": {"content": [{"token_id": t, "logprob": -0.5, "rank": 1, "top_logprobs": []} for t in (4, 5, 6)]},
        "weight_versions": [{"version": "1", "start": 0, "end": 2}, {"version": "2", "start": 2, "end": 3}],
        "routed_experts": None,
    }
    return whole | changes


def logprobs(*values: float | None, tokens: tuple[int, ...] = (4, 5, 6)) -> dict[str, Any]:
    pairs = zip(tokens, values, strict=True)
    return {"content": [{"token_id": token, "logprob": value} for token, value in pairs]}


def span(version: str, start: int, end: int) -> dict[str, Any]:
    return {"version": version, "start": start, "end": end}


async def ask(
    answer: object, status: int = 200, timeout_s: float = 30.0, labels: tuple[str, ...] = ("1", "2")
) -> Completion:
    """What the client makes of an engine that gives this answer, and says that it serves `labels`, one after the
    other."""
    body = answer if isinstance(answer, str) else json.dumps({"request_id": "r", "choices": [answer]})
    served = iter(labels)

    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/weight_info" and status < 400:
            return httpx.Response(200, json={"weight_version": next(served)})
        return httpx.Response(status, text=body)

    transport = httpx.MockTransport(respond)
    async with HttpEngine("http://engine", transport=transport, timeout_s=timeout_s) as engine:
        return await engine.generate((1, 2), max_tokens=3, temperature=1.0, seed=0)


async def test_a_complete_answer_is_accepted_unchanged() -> None:
    assert await ask(choice()) == Completion(
        (4, 5, 6), (-0.5, -0.5, -0.5), (TokenSpan(1, 0, 2), TokenSpan(2, 2, 3)), "length"
    )


@pytest.mark.parametrize(("labels", "version"), [(("4", "4"), 4), (("3", "5"), 3), (("5", "4"), 4)])
async def test_an_answer_without_spans_counts_as_the_older_version_before_and_after(
    labels: tuple[str, str], version: int
) -> None:
    for silent in (choice(weight_versions=None), {k: v for k, v in choice().items() if k != "weight_versions"}):
        assert (await ask(silent, labels=labels)).spans == (TokenSpan(version, 0, 3),)


@pytest.mark.parametrize("labels", [("unknown", "4"), ("4", "default")])
async def test_an_answer_without_spans_is_refused_if_the_served_weights_have_no_version(
    labels: tuple[str, str],
) -> None:
    with pytest.raises(InfrastructureFault, match="bad_spans"):
        await ask(choice(weight_versions=None), labels=labels)


async def test_a_server_that_stops_giving_spans_is_asked_for_its_version_first() -> None:
    answers = iter([choice(), choice(weight_versions=None), choice(weight_versions=None)])
    asked: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        if request.url.path == "/weight_info":
            return httpx.Response(200, json={"weight_version": "7"})
        return httpx.Response(200, json={"request_id": "r", "choices": [next(answers)]})

    async with HttpEngine("http://engine", transport=httpx.MockTransport(respond)) as engine:
        spans = [span.version for span in (await engine.generate((1,), max_tokens=3, temperature=1.0, seed=0)).spans]
        assert spans == [1, 2]
        with pytest.raises(InfrastructureFault, match="bad_spans"):
            await engine.generate((1,), max_tokens=3, temperature=1.0, seed=0)
        assert asked.count("/weight_info") == 1, "spans say it: nothing else is asked"
        answer = await engine.generate((1,), max_tokens=3, temperature=1.0, seed=0)
        assert answer.spans == (TokenSpan(7, 0, 3),)
        assert asked[-3:] == ["/weight_info", "/inference/v1/generate", "/weight_info"]


async def test_rounding_above_zero_is_taken_as_zero() -> None:
    assert (await ask(choice(logprobs=logprobs(5e-7, 0.0, -1.0)))).logprobs == (0.0, 0.0, -1.0)


@pytest.mark.fault("Advisor and engine", "logprobs missing")
@pytest.mark.fault("Advisor and engine", "logprobs that are no numbers")
@pytest.mark.fault("Advisor and engine", "logprobs of another length")
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("bad_logprobs", {"logprobs": logprobs(-1.0, -1.0, tokens=(4, 5))}),
        ("bad_logprobs", {"logprobs": logprobs(-1.0, -1.0, -1.0, tokens=(4, 5, 7))}),
        ("bad_logprobs", {"logprobs": logprobs(-1.0, 0.01, -1.0)}),
        ("bad_logprobs", {"logprobs": logprobs(-1.0, float("nan"), -1.0)}),
        ("bad_logprobs", {"logprobs": logprobs(-1.0, float("-inf"), -1.0)}),
        ("bad_logprobs", {"logprobs": logprobs(-1.0, -1e300, -1.0)}),
        ("bad_answer", {"token_ids": [4, 5, -1], "logprobs": logprobs(-1.0, -1.0, -1.0, tokens=(4, 5, -1))}),
        ("bad_answer", {"token_ids": [4, 5, 1 << 40], "logprobs": logprobs(-1.0, -1.0, -1.0, tokens=(4, 5, 1 << 40))}),
        ("bad_spans", {"weight_versions": [span("9" * 5000, 0, 3)]}),
        ("bad_answer", {"logprobs": logprobs(-1.0, None, -1.0)}),
        ("bad_answer", {"logprobs": None}),
        ("bad_answer", {"token_ids": []}),
        ("bad_answer", {"token_ids": [4, 5, 6, 7]}),
        ("bad_answer", {"finish_reason": "abort"}),
        ("bad_spans", {"weight_versions": []}),
        ("bad_spans", {"weight_versions": [span("1", 0, 2)]}),
        ("bad_spans", {"weight_versions": [span("1", 0, 4)]}),
        ("bad_spans", {"weight_versions": [span("1", 0, 1), span("2", 2, 3)]}),
        ("bad_spans", {"weight_versions": [span("1", 0, 2), span("2", 1, 3)]}),
        ("bad_spans", {"weight_versions": [span("1", 0, 0), span("2", 0, 3)]}),
        ("bad_spans", {"weight_versions": [span("default", 0, 3)]}),
        ("bad_spans", {"weight_versions": [span("unknown", 0, 3)]}),
    ],
)
async def test_an_answer_that_is_not_whole_is_an_infrastructure_fault(kind: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InfrastructureFault) as caught:
        await ask(choice(**changes))
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("bad_answer", "not JSON", 200),
        ("bad_answer", '{"request_id": "r", "choices": []}', 200),
        ("bad_answer", "{}", 200),
        ("engine_refused", '{"error": {"message": "too long"}}', 400),
        ("engine_error", '{"error": {"message": "logits"}}', 500),
        ("engine_error", "", 503),
    ],
)
async def test_malformed_answers_and_refusals_are_infrastructure_faults(kind: str, body: str, status: int) -> None:
    with pytest.raises(InfrastructureFault) as caught:
        await ask(body, status)
    assert caught.value.kind == kind


async def test_an_engine_that_is_not_there_is_an_infrastructure_fault() -> None:
    async with HttpEngine("http://127.0.0.1:9", timeout_s=30.0) as engine:
        for call in (
            engine.generate((1,), max_tokens=1, temperature=1.0, seed=0),
            engine.encode("text"),
            engine.decode((1,)),
            engine.served_version(),
        ):
            with pytest.raises(InfrastructureFault) as caught:
                await call
            assert caught.value.kind == "engine_unreachable"


async def test_an_engine_that_never_answers_is_an_infrastructure_fault() -> None:
    async def silent(request: httpx.Request) -> httpx.Response:
        await anyio.sleep_forever()
        raise AssertionError

    async with HttpEngine("http://engine", transport=httpx.MockTransport(silent), timeout_s=0.01) as engine:
        with pytest.raises(InfrastructureFault) as caught:
            await engine.generate((1,), max_tokens=1, temperature=1.0, seed=0)
    assert caught.value.kind == "engine_timeout"


def test_special_tokens_are_read_from_the_tokenizer_file(tmp_path: Any) -> None:
    assert special_token_ids(save_tiny_model(tmp_path / "model", seed=0)) == {END, END + 1}
    assert special_token_ids(tmp_path) == frozenset()


@pytest.mark.fault("Programs as weapons", "half a sign, a NUL or a byte order mark in a text from outside")
async def test_half_a_sign_in_an_answer_or_a_prompt_is_the_replacement_character() -> None:
    asked: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content).get("prompt", ""))
        if request.url.path == "/tokenize":
            return httpx.Response(200, json={"count": 1, "max_model_len": 9, "tokens": [4]})
        return httpx.Response(200, text='{"prompt": "set WIDTH \\ud83d to \\u0000 5 \\ud83e\\udd8a"}')

    async with HttpEngine("http://engine", transport=httpx.MockTransport(respond)) as engine:
        assert await engine.decode((4,)) == "set WIDTH \ufffd to \ufffd 5 \U0001f98a"
        assert await engine.encode("a \ud83d b\0") == (4,)
    assert asked == ["", "a \ufffd b\ufffd"]
