"""HTTP engine: a client for every server of the protocol in `engines.wire`, a subset of vLLM's.

Invariant: an answer of `generate` is complete: one log-probability ≤ 0 for each token, and version spans that cover all
tokens. If a server gives no spans, the client reads the served label before and after the request, and the answer
counts as the oldest version served in between. `Labels` maps labels to versions and decides whether to believe them.
Every call has one deadline. Every failure is an InfrastructureFault of one of these kinds:

    engine_unreachable    no connection, or it broke            engine_timeout    no answer before the deadline
    engine_refused        the engine rejected the request       engine_error      the engine reported its own failure
    bad_answer            the answer has the wrong shape        bad_logprobs      not finite, above 0, or a wrong count
    bad_spans             spans that do not cover the tokens, or a label that means no version
    voided                sampled by weights that do not match their label: `base.Voided`
    prompt_too_long       the engine's context has no room for the answer: `base.PromptTooLong`. Raised before the
                          request if the prompt fills the context, after it if the context cut the answer

Not here: retries. The search thread decides about them.
"""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeVar

import anyio
import httpx
from pydantic import BaseModel, ValidationError

from pace_async.advise.base import Completion, PromptTooLong
from pace_async.advise.chat import PLAIN_TEXT, ChatTemplate, Message, TextFormat
from pace_async.advise.engines import wire
from pace_async.errors import InfrastructureFault
from pace_async.events import TokenSpan
from pace_async.outside import sound
from pace_async.weights import BASE

Answer = TypeVar("Answer", bound=BaseModel)

_ROUNDING = 1e-6
LEAST_LOGPROB = -1e38
"""Log-probabilities are kept as float32."""
MOST_TOKENS = 1 << 32
LONGEST_LABEL = 9
"""Digits of a version."""


def special_token_ids(model: Path) -> frozenset[int]:
    """Ids of the tokens that a model's tokenizer.json marks as special. Empty if there is no such file."""
    file = model / "tokenizer.json"
    if not file.is_file():
        return frozenset()
    added: list[dict[str, Any]] = json.loads(file.read_text("utf-8")).get("added_tokens", [])
    return frozenset(int(token["id"]) for token in added if token.get("special"))


class Labels(Protocol):
    """Maps weight labels to versions. Each method may wait until it is known whether to believe the label. Raises
    InfrastructureFault("bad_spans") for a label that means no version, Voided for one that must not be believed."""

    async def version(self, label: str) -> int:
        """The version that carries the label."""
        ...

    async def oldest(self, before: str, after: str) -> int:
        """The oldest version served between the two readings of the label, `before` and `after`."""
        ...


class AdapterNames(Protocol):
    """Names the adapter for a request, for an engine that serves each version as an adapter. Version 0 is `BASE`."""

    def using(self) -> AbstractContextManager[str]:
        """The adapter's name, which is also its weight label. The adapter stays loaded inside the context."""
        ...


class Numbers:
    """`Labels` that are version numbers. All are believed."""

    async def version(self, label: str) -> int:
        version = _number_of(label)
        if version is None:
            raise InfrastructureFault("bad_spans", f"weight version {label[:40]!r} is not a number")
        return version

    async def oldest(self, before: str, after: str) -> int:
        return min(await self.version(before), await self.version(after))


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """A server's answer. All is checked except the meaning of its labels. `spans` is None if the server gave none."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    spans: tuple[wire.VersionSpan, ...] | None
    finish: Literal["stop", "length"]


class HttpEngine:
    """An `Engine`. `timeout_s` is the deadline of one call. Decoded text omits the special tokens of `text` (vLLM's
    /detokenize keeps them), but keeps the end-of-thinking mark of its chat format, through whose template questions go.
    `transport` is httpx's, for an engine that is not behind a socket. Use it as an async context manager, or call
    `aclose`."""

    def __init__(
        self,
        base_url: str,
        *,
        text: TextFormat = PLAIN_TEXT,
        timeout_s: float = 120.0,
        labels: Labels | None = None,
        adapters: AdapterNames | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._special = frozenset(text.special_ids)
        self._chat = text.chat
        self._template = None if text.chat is None else ChatTemplate(self._rendered, self._as_data, self._special)
        self._timeout_s = timeout_s
        self._labels = labels or Numbers()
        self._context: int | None = None
        self._adapters = adapters
        self._gives_spans = adapters is not None
        self._words: dict[int, str] = {}
        self._marks: tuple[int, ...] | None = None
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._http = httpx.AsyncClient(
            base_url=base_url,
            timeout=None,
            limits=limits,
            trust_env=False,
            verify=base_url.startswith("https:"),
            transport=transport,
        )

    async def encode(self, text: str) -> tuple[int, ...]:
        """Encode the text as data: the spelling of a special token inside it becomes ordinary tokens."""
        text = sound(text)
        if self._template is not None:
            return await self._template.question(text)
        return await self._as_data(text, special=True)

    async def _as_data(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        tokens = await self.tokens(text, special=special)
        pieces = [text]
        for token in sorted(self._special.intersection(tokens)):  # may include the token that begins every prompt
            word = await self._word(token)
            pieces = [piece for part in pieces for piece in _cut(part, word)]
        if pieces == [text]:
            return tokens
        encoded = [await self.tokens(piece, special=special and piece is pieces[0]) for piece in pieces]
        return tuple(token for piece in encoded for token in piece)

    async def _rendered(self, messages: Sequence[Message], asks: bool) -> tuple[int, ...]:
        """Token ids of messages in the chat template. `asks` adds the beginning of an answer."""
        arguments = self._chat.arguments if self._chat is not None else {}
        request = wire.TokenizeChatRequest(
            messages=list(messages), add_generation_prompt=asks, chat_template_kwargs=arguments or None
        )
        answer = await self._ask("POST", "/tokenize", wire.TokenizeAnswer, request)
        self._context = answer.max_model_len
        return tuple(answer.tokens)

    async def tokens(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        """Token ids of a text. `special` adds the tokens that begin a sequence for this model, and none that
        ends it."""
        request = wire.TokenizeRequest(prompt=text, add_special_tokens=special)
        answer = await self._ask("POST", "/tokenize", wire.TokenizeAnswer, request)
        self._context = answer.max_model_len
        tokens = tuple(answer.tokens)
        if special and tokens and tokens[-1] in self._special:
            return _without_end(tokens, await self.tokens(text))
        return tokens

    async def decode(self, token_ids: tuple[int, ...]) -> str:
        mark = await self._mark() if self._special.intersection(token_ids) else None
        tokens = [token for token in token_ids if token == mark or token not in self._special]
        request = wire.DetokenizeRequest(tokens=tokens)
        return sound((await self._ask("POST", "/detokenize", wire.DetokenizeAnswer, request)).prompt)

    async def generate(
        self, prompt_ids: tuple[int, ...], *, max_tokens: int, temperature: float, seed: int
    ) -> Completion:
        self._refuse_unless_room(prompt_ids)
        stop = (await self._template.frame()).end if self._template is not None else ()
        before = None if self._gives_spans else await self.label()
        with self._adapters.using() if self._adapters is not None else nullcontext() as adapter:
            drawn = wire.SamplingParams(
                max_tokens=max_tokens, temperature=temperature, seed=seed, stop_token_ids=list(stop) or None
            )
            sampled = await self.sample(prompt_ids, drawn, adapter)
        if sampled.finish == "length" and len(sampled.token_ids) < max_tokens:
            raise PromptTooLong(len(prompt_ids), len(prompt_ids) + len(sampled.token_ids))
        count = len(sampled.token_ids)
        self._gives_spans = sampled.spans is not None
        if sampled.spans is not None:
            spans = [TokenSpan(await self._labels.version(s.version), s.start, s.end) for s in sampled.spans]
        elif before is not None:
            spans = [TokenSpan(await self._labels.oldest(before, await self.label()), 0, count)]
        else:
            raise InfrastructureFault("bad_spans", "an answer without spans from a server that gave them before")
        return Completion(sampled.token_ids, sampled.logprobs, tuple(spans), sampled.finish)

    async def sample(
        self, prompt_ids: tuple[int, ...], drawn: wire.SamplingParams, adapter: str | None = None
    ) -> ServedAnswer:
        """Sample an answer without checking its labels. With an adapter, its name is the label of every token, because
        a request ends on the adapter that it began with."""
        self._refuse_unless_room(prompt_ids)
        model = None if adapter == BASE else adapter
        request = wire.GenerateRequest(token_ids=list(prompt_ids), sampling_params=drawn, model=model)
        answer = await self._ask("POST", "/inference/v1/generate", wire.GenerateAnswer, request)
        sampled = _sampled(answer, drawn.max_tokens)
        if adapter is None:
            return sampled
        return replace(sampled, spans=(wire.VersionSpan(version=adapter, start=0, end=len(sampled.token_ids)),))

    def _refuse_unless_room(self, prompt_ids: tuple[int, ...]) -> None:
        if self._context is not None and len(prompt_ids) >= self._context:
            raise PromptTooLong(len(prompt_ids), self._context)

    async def label(self, timeout_s: float | None = None) -> str:
        """The server's label of the weights that it serves."""
        return (await self._ask("GET", "/weight_info", wire.WeightInfo, timeout_s=timeout_s)).weight_version

    async def vllm_version(self) -> str | None:
        """The version of vLLM that the server reports. None: it reports none, as the embedded engine does."""
        try:
            return (await self._ask("GET", "/version", wire.ServerVersion)).version
        except InfrastructureFault as fault:
            if fault.kind not in ("engine_refused", "bad_answer"):
                raise
            return None

    async def served_version(self) -> int | None:
        """The served version. None if the weights are unknown or have no number."""
        label = await self.label()
        return _number_of(label)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _mark(self) -> int | None:
        """The end-of-thinking mark, if it is one token."""
        if self._chat is None:
            return None
        if self._marks is None:
            self._marks = await self.tokens(self._chat.end_of_thinking)
        return self._marks[0] if len(self._marks) == 1 else None

    async def _word(self, token: int) -> str:
        """Spelling of a special token."""
        if token not in self._words:
            request = wire.DetokenizeRequest(tokens=[token])
            self._words[token] = (await self._ask("POST", "/detokenize", wire.DetokenizeAnswer, request)).prompt
        return self._words[token]

    async def _ask(
        self,
        method: str,
        path: str,
        kind: type[Answer],
        body: BaseModel | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        deadline_s = self._timeout_s if timeout_s is None else timeout_s
        content = None if body is None else body.model_dump_json(exclude_none=True)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            with anyio.fail_after(deadline_s):
                response = await self._http.request(method, path, content=content, headers=headers)
        except TimeoutError:
            raise InfrastructureFault("engine_timeout", f"{path}: no answer in {deadline_s:g} s") from None
        except httpx.HTTPError as error:
            raise InfrastructureFault("engine_unreachable", f"{path}: {str(error) or type(error).__name__}") from error
        if response.status_code >= 400:
            kind_of_fault = "engine_refused" if response.status_code < 500 else "engine_error"
            raise InfrastructureFault(kind_of_fault, f"{path}: {response.status_code} {response.text[:300]}")
        try:
            return _parse(kind, response.content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InfrastructureFault("bad_answer", f"{path}: {where}: {first['msg']}") from error


def _without_end(tokens: tuple[int, ...], own: tuple[int, ...]) -> tuple[int, ...]:
    """Tokens of a text up to the last of its `own`. Some tokenizers add one that ends a sequence, and a prompt goes
    on."""
    ends = (at + len(own) for at in range(len(tokens) - len(own) + 1) if tokens[at : at + len(own)] == own)
    return tokens[: next(ends, len(tokens))]


def _parse(kind: type[Answer], content: bytes) -> Answer:
    """The answer, with texts made sound. Half of a surrogate pair is JSON, and pydantic takes it for a mistake. Raises
    ValidationError."""
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        try:
            value: object = json.loads(content.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise error from None
        return kind.model_validate_json(sound(json.dumps(value, ensure_ascii=False)))


def _number_of(label: str) -> int | None:
    """The version that a label is the number of."""
    return int(label) if label.isdecimal() and len(label) <= LONGEST_LABEL else None


def _cut(text: str, word: str) -> list[str]:
    """Split the text so that no piece holds the whole word: each occurrence is cut after its first character."""
    first, *others = text.split(word) if len(word) > 1 else [text]
    pieces = [first]
    for other in others:
        pieces[-1] += word[0]
        pieces.append(word[1:] + other)
    return pieces


def _sampled(answer: wire.GenerateAnswer, max_tokens: int) -> ServedAnswer:
    if len(answer.choices) != 1:
        raise InfrastructureFault("bad_answer", f"{len(answer.choices)} answers to one request")
    choice = answer.choices[0]
    tokens = tuple(choice.token_ids)
    if not 0 < len(tokens) <= max_tokens:
        raise InfrastructureFault("bad_answer", f"{len(tokens)} tokens, where 1 to {max_tokens} were requested")
    if choice.finish_reason == "stop":
        finish = "stop"
    elif choice.finish_reason == "length":
        finish = "length"
    else:
        raise InfrastructureFault("bad_answer", f"generation ended by {choice.finish_reason}")
    if not all(0 <= token < MOST_TOKENS for token in tokens):
        raise InfrastructureFault("bad_answer", f"a token id that is not between 0 and {MOST_TOKENS}")
    spans = choice.weight_versions
    if spans is not None:
        _refuse_unless_whole(spans, len(tokens))
    return ServedAnswer(tokens, _logprobs(choice, tokens), None if spans is None else tuple(spans), finish)


def _logprobs(choice: wire.CompletionChoice, tokens: tuple[int, ...]) -> tuple[float, ...]:
    entries = choice.logprobs.content
    if tuple(entry.token_id for entry in entries) != tokens:
        raise InfrastructureFault("bad_logprobs", f"{len(entries)} log-probabilities for {len(tokens)} tokens")
    for at, entry in enumerate(entries):
        if not LEAST_LOGPROB <= entry.logprob <= _ROUNDING:
            raise InfrastructureFault("bad_logprobs", f"log-probability {entry.logprob} at token {at}")
    return tuple(min(entry.logprob, 0.0) for entry in entries)


def _refuse_unless_whole(spans: list[wire.VersionSpan], count: int) -> None:
    end = 0
    for span in spans:
        if span.start != end or span.end <= span.start:
            raise InfrastructureFault("bad_spans", f"a span [{span.start}, {span.end}) after token {end}")
        end = span.end
    if end != count:
        raise InfrastructureFault("bad_spans", f"spans cover {end} of {count} tokens")
