"""An engine whose versions are snapshots of a service: the paths of `wire` that `HttpEngine` asks, without a socket.

A request samples from the snapshot that is served when it comes, all of it, and its one span says so. So an answer has
one version, and a new one is served from one request to the next, without a pause.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
from pydantic import BaseModel, ValidationError

from pace_async.advise.engines import wire
from pace_async.errors import InfrastructureFault
from pace_async.providers.tinker.service import Sampler
from pace_async.tokenizer_file import TokenizerFile


@dataclass(frozen=True, slots=True)
class ServedSnapshot:
    """A version, and what samples from it."""

    version: int
    sampler: Sampler


class SnapshotTransport(httpx.AsyncBaseTransport):
    """httpx's way to the service. `served` is set by the publisher. `ends` are ids of the tokens that end an answer,
    `context` the tokens of the longest question and answer together."""

    def __init__(self, tokenizer: TokenizerFile, ends: Sequence[int], context: int) -> None:
        self._tokenizer, self._ends, self._context = tokenizer, tuple(ends), context
        self.served: ServedSnapshot | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        content = await request.aread()
        try:
            answer = await self._answer(request.url.path, content)
        except ValidationError as error:
            return _refused(400, f"{error.errors()[0]['msg']}")
        except ValueError as error:
            return _refused(400, str(error))
        except InfrastructureFault as fault:
            if fault.kind == "service_unreachable":
                raise httpx.ConnectError(fault.detail, request=request) from None
            return _refused(503 if fault.kind != "service_refused" else 400, str(fault))
        return httpx.Response(200, json=answer)

    async def _answer(self, path: str, content: bytes) -> dict[str, Any]:
        match path:
            case "/tokenize":
                return self._tokenized(wire.AnyTokenizeRequest.model_validate_json(content).root)
            case "/detokenize":
                body = wire.DetokenizeRequest.model_validate_json(content)
                return {"prompt": self._tokenizer.decode(body.tokens)}
            case "/inference/v1/generate":
                return await self._sampled(wire.GenerateRequest.model_validate_json(content))
            case "/weight_info":
                return {"weight_version": str(self._serving().version)}
            case _:
                raise ValueError(f"{path} is not served")

    def _tokenized(self, body: BaseModel) -> dict[str, Any]:
        if isinstance(body, wire.TokenizeChatRequest):
            ids = self._tokenizer.chat(body.messages, body.add_generation_prompt, body.chat_template_kwargs or {})
        else:
            assert isinstance(body, wire.TokenizeRequest)
            ids = self._tokenizer.encode(body.prompt, add_special_tokens=body.add_special_tokens)
        return {"count": len(ids), "max_model_len": self._context, "tokens": ids}

    async def _sampled(self, body: wire.GenerateRequest) -> dict[str, Any]:
        serving, drawn = self._serving(), body.sampling_params
        if drawn.temperature != 1.0:
            raise ValueError(f"the service is asked at temperature 1, not {drawn.temperature:g}")
        room = self._context - len(body.token_ids)
        if room < 1:
            raise ValueError(f"the prompt has {len(body.token_ids)} tokens; at most {self._context - 1} fit")
        sample = await serving.sampler.sample(
            body.token_ids,
            max_tokens=min(drawn.max_tokens, room),
            seed=drawn.seed if drawn.seed is not None else uuid4().int >> 65,
            stop_ids=sorted({*self._ends, *(drawn.stop_token_ids or ())}),
        )
        span = (str(serving.version), 0, len(sample.token_ids))
        return wire.generate_answer(uuid4().hex, sample.token_ids, sample.logprobs, sample.finish, [span])

    def _serving(self) -> ServedSnapshot:
        if self.served is None:
            raise InfrastructureFault("service_error", "no version is served yet")
        return self.served


def _refused(code: int, message: str) -> httpx.Response:
    return httpx.Response(code, content=json.dumps({"error": {"message": message, "code": code}}))
