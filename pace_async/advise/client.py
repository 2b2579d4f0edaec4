"""An engine over HTTP: vLLM's protocol as `engines.wire` has it, whoever serves it.

Invariant: what `generate` returns is whole: one log-probability ≤ 0 for each token, and version spans that cover all
tokens. Every call has one deadline, and whatever fails is an InfrastructureFault, of kind

    engine_unreachable    no connection, or it broke              engine_timeout    no answer before the deadline
    engine_refused        the engine said the request is wrong    engine_error      the engine said it failed
    bad_answer            not of the shape that was asked for     bad_logprobs      not finite, above 0, or not as many
    bad_spans             spans that do not cover the tokens, or a version that is no number
    prompt_too_long       the engine's context has no room for the answer: `base.PromptTooLong`, found before asking
                          where the prompt alone fills it, and afterwards where an answer was cut by it

Not a retrier: the search thread decides that.
"""

import json
from collections.abc import Collection
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import httpx
from pydantic import BaseModel, ValidationError

from pace_async.advise.base import Completion, PromptTooLong
from pace_async.advise.engines import wire
from pace_async.errors import InfrastructureFault
from pace_async.events import TokenSpan

Answer = TypeVar("Answer", bound=BaseModel)

_ROUNDING = 1e-6


def special_token_ids(model: Path) -> frozenset[int]:
    """Ids of the tokens that a model's tokenizer.json marks as special; none where there is no such file."""
    file = model / "tokenizer.json"
    if not file.is_file():
        return frozenset()
    added: list[dict[str, Any]] = json.loads(file.read_text("utf-8")).get("added_tokens", [])
    return frozenset(int(token["id"]) for token in added if token.get("special"))


class HttpEngine:
    """An `Engine`. `timeout_s` is the deadline of one call; `special_ids` are left out of decoded text (vLLM's
    /detokenize keeps them); `transport` is httpx's, for an engine that is not behind a socket. An async context
    manager, or call `aclose`."""

    def __init__(
        self,
        base_url: str,
        *,
        special_ids: Collection[int] = (),
        timeout_s: float = 120.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._special = frozenset(special_ids)
        self._timeout_s = timeout_s
        self._context: int | None = None
        self._words: dict[int, str] = {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._http = httpx.AsyncClient(
            base_url=base_url, timeout=None, limits=limits, trust_env=False, transport=transport
        )

    async def encode(self, text: str) -> tuple[int, ...]:
        """The text as data: a special token that it spells is encoded as the letters that it is made of."""
        tokens = await self._encode(text)
        pieces = [text]
        for token in sorted(self._special.intersection(tokens)):  # the first may be one that opens every prompt
            word = await self._word(token)
            pieces = [piece for part in pieces for piece in _cut(part, word)]
        if pieces == [text]:
            return tokens
        encoded = [await self._encode(piece, opens=piece is pieces[0]) for piece in pieces]
        return tuple(token for piece in encoded for token in piece)

    async def decode(self, token_ids: tuple[int, ...]) -> str:
        asked = wire.DetokenizeRequest(tokens=[token for token in token_ids if token not in self._special])
        return (await self._ask("POST", "/detokenize", wire.DetokenizeAnswer, asked)).prompt

    async def generate(
        self, prompt_ids: tuple[int, ...], *, max_tokens: int, temperature: float, seed: int
    ) -> Completion:
        if self._context is not None and len(prompt_ids) >= self._context:
            raise PromptTooLong(len(prompt_ids), self._context)
        parameters = wire.SamplingParams(max_tokens=max_tokens, temperature=temperature, seed=seed)
        asked = wire.GenerateRequest(token_ids=list(prompt_ids), sampling_params=parameters)
        answer = await self._ask("POST", "/inference/v1/generate", wire.GenerateAnswer, asked)
        completion = _completion(answer, max_tokens)
        if completion.finish == "length" and len(completion.token_ids) < max_tokens:
            raise PromptTooLong(len(prompt_ids), len(prompt_ids) + len(completion.token_ids))
        return completion

    async def served_version(self) -> int | None:
        """The version that is served; None where the engine's weights are unknown or have no number."""
        label = (await self._ask("GET", "/weight_info", wire.WeightInfo)).weight_version
        return int(label) if label.isdecimal() else None

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _encode(self, text: str, *, opens: bool = True) -> tuple[int, ...]:
        asked = wire.TokenizeRequest(prompt=text, add_special_tokens=opens)
        answer = await self._ask("POST", "/tokenize", wire.TokenizeAnswer, asked)
        self._context = answer.max_model_len
        return tuple(answer.tokens)

    async def _word(self, token: int) -> str:
        """How a special token is spelt."""
        if token not in self._words:
            asked = wire.DetokenizeRequest(tokens=[token])
            self._words[token] = (await self._ask("POST", "/detokenize", wire.DetokenizeAnswer, asked)).prompt
        return self._words[token]

    async def _ask(self, method: str, path: str, kind: type[Answer], body: BaseModel | None = None) -> Answer:
        content = None if body is None else body.model_dump_json(exclude_none=True)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            with anyio.fail_after(self._timeout_s):
                response = await self._http.request(method, path, content=content, headers=headers)
        except TimeoutError:
            raise InfrastructureFault("engine_timeout", f"{path}: no answer in {self._timeout_s:g} s") from None
        except httpx.HTTPError as error:
            raise InfrastructureFault("engine_unreachable", f"{path}: {error or type(error).__name__}") from error
        if response.status_code >= 400:
            kind_of_fault = "engine_refused" if response.status_code < 500 else "engine_error"
            raise InfrastructureFault(kind_of_fault, f"{path}: {response.status_code} {response.text[:300]}")
        try:
            return kind.model_validate_json(response.content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InfrastructureFault("bad_answer", f"{path}: {where}: {first['msg']}") from error


def _cut(text: str, word: str) -> list[str]:
    """The text in pieces none of which holds the whole word: each occurrence is cut behind its first character."""
    first, *others = text.split(word) if len(word) > 1 else [text]
    pieces = [first]
    for other in others:
        pieces[-1] += word[0]
        pieces.append(word[1:] + other)
    return pieces


def _completion(answer: wire.GenerateAnswer, max_tokens: int) -> Completion:
    if len(answer.choices) != 1:
        raise InfrastructureFault("bad_answer", f"{len(answer.choices)} answers to one request")
    choice = answer.choices[0]
    tokens = tuple(choice.token_ids)
    if not 0 < len(tokens) <= max_tokens:
        raise InfrastructureFault("bad_answer", f"{len(tokens)} tokens where 1 to {max_tokens} were asked for")
    if choice.finish_reason == "stop":
        finish = "stop"
    elif choice.finish_reason == "length":
        finish = "length"
    else:
        raise InfrastructureFault("bad_answer", f"generation ended by {choice.finish_reason}")
    return Completion(tokens, _logprobs(choice, tokens), _spans(choice.weight_versions, len(tokens)), finish)


def _logprobs(choice: wire.Choice, tokens: tuple[int, ...]) -> tuple[float, ...]:
    entries = choice.logprobs.content
    if tuple(entry.token_id for entry in entries) != tokens:
        raise InfrastructureFault("bad_logprobs", f"{len(entries)} log-probabilities for {len(tokens)} tokens")
    for at, entry in enumerate(entries):
        if not (isfinite(entry.logprob) and entry.logprob <= _ROUNDING):
            raise InfrastructureFault("bad_logprobs", f"log-probability {entry.logprob} at token {at}")
    return tuple(min(entry.logprob, 0.0) for entry in entries)


def _spans(spans: list[wire.VersionSpan], count: int) -> tuple[TokenSpan, ...]:
    end = 0
    for span in spans:
        if span.start != end or span.end <= span.start:
            raise InfrastructureFault("bad_spans", f"a span [{span.start}, {span.end}) after token {end}")
        if not span.version.isdecimal():
            raise InfrastructureFault("bad_spans", f"weight version {span.version!r} is no number")
        end = span.end
    if end != count:
        raise InfrastructureFault("bad_spans", f"spans cover {end} of {count} tokens")
    return tuple(TokenSpan(int(span.version), span.start, span.end) for span in spans)
