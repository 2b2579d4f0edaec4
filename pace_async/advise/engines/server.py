"""HTTP server of the embedded engine: the paths of `wire`, served by one `Batcher`.

Every answer with status 400 or above has the body {"error": {"message", "type", "code"}}. If a client disconnects, its
request leaves the batch. This module never touches the model: such calls run in the batcher's thread.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import anyio
import anyio.to_thread
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pace_async.advise.engines import wire
from pace_async.advise.engines.batcher import Batcher, NotFinite, NotNow
from pace_async.advise.engines.fetched import fetched
from pace_async.advise.engines.load import BadCheckpoint
from pace_async.weights import checkpoint_digests

T = TypeVar("T")
Body = TypeVar("Body", bound=BaseModel)


class RequestRefused(ValueError):
    """The request is invalid."""


def build_app(batcher: Batcher, tokenizer: Any, *, name: str, vocabulary: int, max_model_len: int) -> Starlette:
    """`tokenizer` comes from transformers. `name` is the model's name in /v1/models. `vocabulary` is the number of
    token ids. `max_model_len` is in tokens."""
    face = _Face(batcher, tokenizer, name, vocabulary, max_model_len)
    routes = {
        "POST": {
            "/inference/v1/generate": face.generate,
            "/tokenize": face.tokenize,
            "/detokenize": face.detokenize,
            "/pause": face.pause,
            "/resume": face.doing(batcher.resume, {"status": "resumed"}),
            "/init_weight_transfer_engine": face.init,
            "/start_weight_update": face.doing(batcher.start_update, {"message": "Weight update started"}),
            "/update_weights": face.update,
            "/finish_weight_update": face.finish,
            "/collective_rpc": face.rpc,
            "/reset_prefix_cache": _telling(lambda: {"success": True}),  # the engine keeps no prefix cache
        },
        "GET": {
            "/health": face.health,
            "/v1/models": face.models,
            "/load": _telling(lambda: {"server_load": batcher.open_requests}),
            "/is_paused": _telling(lambda: {"is_paused": batcher.paused}),
            "/weight_info": _telling(lambda: {"weight_version": batcher.version}),
        },
    }
    return Starlette(
        routes=[
            Route(path, _answering(handler), methods=[method])
            for method, handlers in routes.items()
            for path, handler in handlers.items()
        ]
    )


class _Face:
    def __init__(self, batcher: Batcher, tokenizer: Any, name: str, vocabulary: int, max_model_len: int) -> None:
        self.batcher = batcher
        self.tokenizer = tokenizer
        self.name = name
        self.vocabulary = vocabulary
        self.max_model_len = max_model_len
        self.announced: wire.Announcement | None = None

    async def generate(self, request: Request) -> Response:
        body = await _body(request, wire.GenerateRequest)
        parameters = body.sampling_params
        room = self.max_model_len - len(body.token_ids)
        if room < 1:
            raise RequestRefused(f"the prompt has {len(body.token_ids)} tokens; at most {self.max_model_len - 1} fit")
        if not all(0 <= token < self.vocabulary for token in body.token_ids):
            raise RequestRefused(f"token ids must lie in [0, {self.vocabulary})")
        future = self.batcher.submit(
            body.token_ids,
            max_tokens=min(parameters.max_tokens, room),
            temperature=parameters.temperature,
            seed=parameters.seed if parameters.seed is not None else uuid4().int >> 65,
            past_end=parameters.ignore_eos,
            stop_ids=parameters.stop_token_ids or (),
        )
        sampled = await _unless_gone(request, future)
        if sampled is None:
            return Response(status_code=499)
        request_id = body.request_id or uuid4().hex
        return JSONResponse(
            wire.generate_answer(request_id, sampled.token_ids, sampled.logprobs, sampled.finish, sampled.spans)
        )

    async def tokenize(self, request: Request) -> Response:
        body = (await _body(request, wire.AnyTokenizeRequest)).root
        if isinstance(body, wire.TokenizeChatRequest):
            ids = self._chat(body)
        else:
            ids = self.tokenizer.encode(body.prompt, add_special_tokens=body.add_special_tokens)
        return JSONResponse({"count": len(ids), "max_model_len": self.max_model_len, "tokens": ids})

    def _chat(self, body: wire.TokenizeChatRequest) -> list[int]:
        try:
            text: str = self.tokenizer.apply_chat_template(
                body.messages,
                add_generation_prompt=body.add_generation_prompt,
                tokenize=False,
                **(body.chat_template_kwargs or {}),
            )
        except Exception as error:  # a template is a program of the model's own, and may raise anything
            raise RequestRefused(f"the chat template cannot be applied: {error}") from None
        return self.tokenizer.encode(text, add_special_tokens=False)

    async def detokenize(self, request: Request) -> Response:
        body = await _body(request, wire.DetokenizeRequest)
        return JSONResponse({"prompt": self.tokenizer.decode(body.tokens)})

    async def pause(self, request: Request) -> Response:
        if request.query_params.get("mode") != "keep":
            raise RequestRefused("pause takes mode=keep only: running requests are kept")
        if request.query_params.get("clear_cache", "true") != "true":
            raise RequestRefused("pause takes clear_cache=true only: new weights never see keys and values of old ones")
        await self._call(self.batcher.pause)
        return JSONResponse({"status": "paused"})

    async def init(self, request: Request) -> Response:
        self.announced = (await _body(request, wire.InitRequest)).init_info
        return JSONResponse({"message": "Weight transfer initialized"})

    async def update(self, request: Request) -> Response:
        folder = await anyio.to_thread.run_sync(self._folder_of, (await _body(request, wire.UpdateRequest)).update_info)
        await self._call(lambda: self.batcher.load(folder))
        return JSONResponse({"message": "Weights updated"})

    async def finish(self, request: Request) -> Response:
        version = (await _body(request, wire.FinishRequest)).weight_version
        await self._call(lambda: self.batcher.finish_update(version))
        return JSONResponse({"message": "Weight update finished"})

    async def rpc(self, request: Request) -> Response:
        if (await _body(request, wire.RpcRequest)).method == "weights_prepared":
            return JSONResponse({"results": [await anyio.to_thread.run_sync(self._announced_digests)]})
        return JSONResponse({"results": [await self._call(self.batcher.loaded_digests)]})

    def _announced_digests(self) -> dict[str, str]:
        """Digests of the announced checkpoint. A small model needs no other preparation than this reading."""
        if self.announced is None:
            raise NotNow("no weights were announced")
        folder = self._folder_of(self.announced)
        try:
            return checkpoint_digests(folder)
        except (OSError, ValueError) as error:
            raise BadCheckpoint(f"{folder} cannot be read: {error}") from error

    def _folder_of(self, update: wire.FileUpdate) -> Path:
        """Where the files of an update are on this machine. Fetches an announced version that is not here."""
        if self.announced is not None and self.announced.fetch is not None and self.announced.path == update.path:
            return fetched(self.announced.fetch)
        return Path(update.path)

    async def health(self, request: Request) -> Response:
        return Response(status_code=200)

    async def models(self, request: Request) -> Response:
        card = {"id": self.name, "object": "model", "owned_by": "pace", "max_model_len": self.max_model_len}
        return JSONResponse({"object": "list", "data": [card]})

    def doing(self, action: Callable[[], None], reply: dict[str, Any]) -> Callable[[Request], Awaitable[Response]]:
        """A handler that runs `action` in the decode loop and answers `reply`."""

        async def handler(_: Request) -> Response:
            await self._call(action)
            return JSONResponse(reply)

        return handler

    async def _call(self, action: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self.batcher.call(action))


async def _body(request: Request, model: type[Body]) -> Body:
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RequestRefused(f"{where}: {first['msg']}") from None


async def _unless_gone(request: Request, future: "Future[T]") -> T | None:
    """The future's result. If the client disconnects first, cancels the future and returns None."""
    wrapped = asyncio.wrap_future(future)
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        await asyncio.wait([wrapped])
        tasks.cancel_scope.cancel()
    if wrapped.done():
        return wrapped.result()
    future.cancel()
    return None


def _telling(state: Callable[[], dict[str, Any]]) -> Callable[[Request], Awaitable[Response]]:
    """A handler that answers with `state()`."""

    async def handler(_: Request) -> Response:
        return JSONResponse(state())

    return handler


def _answering(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Turn an error into an answer: 400 or 409 for the caller's error, 500 for the engine's."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except (RequestRefused, BadCheckpoint) as error:
            return _error(400, error)
        except NotNow as error:
            return _error(409, error)
        except NotFinite as error:
            return _error(500, error)

    return answer


def _error(code: int, error: BaseException) -> Response:
    return JSONResponse(
        {"error": {"message": str(error), "type": type(error).__name__, "code": code}}, status_code=code
    )
