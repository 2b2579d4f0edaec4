"""Engine servers for tests: the embedded engine's own server in a thread, and a proxy that injects faults before it.

Each listens on a loopback socket of this process, so that it is killed and started again within milliseconds. Its
tokens, log-probabilities, labels and weights are real.
"""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
import torch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from transformers import AutoTokenizer

from pace_async.advise.engines.batcher import Batcher
from pace_async.advise.engines.embedded import load_model
from pace_async.advise.engines.server import build_app
from pace_async.runtime.children.advisor_folder import TINY
from pace_async.weights import checkpoint_digests
from tests.support.publishing import phase_of

torch.set_num_threads(1)


Forward = Callable[..., Awaitable[httpx.Response]]
How = Callable[[Request, Forward], Awaitable[Response]]


class Listening:
    """An application behind a socket of its own, in a thread, until it is killed."""

    def __init__(self, app: Starlette, port: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self._socket.listen(64)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(app, log_level="critical", access_log=False, lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True)
        self._thread.start()

    async def _serve(self) -> None:
        await self._server.serve(sockets=[self._socket])
        for _ in range(3):  # uvicorn leaves open what was accepted while it closed the others
            for connection in list(self._server.server_state.connections):
                connection.transport.abort()
            await asyncio.sleep(0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """Close every connection at once."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)
        assert not self._thread.is_alive()


class EngineServer:
    """An engine that was started by somebody else: what it serves at first has the label `none`. An answer ends with
    one of `ends`."""

    def __init__(self, model: Path, ends: frozenset[int] = frozenset()) -> None:
        self._model = model
        self._ends = ends
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return self._listening.url

    def start(self, label: str = "none") -> None:
        """With the weights that it had at first, at the address that it had before."""
        model = load_model(self._model, "cpu")
        self.batcher = Batcher(model, end_ids=self._ends, max_rows=16, threads=1, version=label)
        tokenizer = cast("Any", AutoTokenizer).from_pretrained(self._model)
        app = build_app(self.batcher, tokenizer, name="toy", vocabulary=300, max_model_len=2048)
        self._thread = threading.Thread(target=self._decode, daemon=True)
        self._thread.start()
        self._listening = Listening(app, self._port)
        self._port = self._listening.port

    def _decode(self) -> None:
        with contextlib.suppress(SystemExit):
            self.batcher.run()

    def kill(self) -> None:
        self._listening.kill()

        def end() -> None:
            raise SystemExit

        self.batcher.call(end)
        self._thread.join(10)
        assert not self._thread.is_alive()


@dataclass
class Fault:
    """What happens to the next requests of one path, or of one method of `collective_rpc`: `skip` of them nothing, then
    `times` of them `how`."""

    path: str
    how: How
    times: int = 1
    skip: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    """Set with the last of them."""


class Proxy:
    """Stands before an engine and passes everything on, but for `faults`."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.faults: list[Fault] = []
        self.hit: list[str] = []
        self.answered = asyncio.Event()
        """Some request for tokens was answered since the engine last resumed."""
        self._http: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listening = Listening(Starlette(routes=[Route("/{path:path}", self._handle, methods=["GET", "POST"])]))

    @property
    def url(self) -> str:
        return self._listening.url

    def kill(self) -> None:
        if self._http is not None and self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._http.aclose(), self._loop).result(10)
        self._listening.kill()

    async def _handle(self, request: Request) -> Response:
        body = await request.body()
        if self._http is None:
            self._http, self._loop = (
                httpx.AsyncClient(timeout=60.0, trust_env=False, verify=False),
                asyncio.get_running_loop(),
            )
        http = self._http

        async def forward(content: bytes = body) -> httpx.Response:
            url = f"{self.upstream}{request.url.path}"
            if request.url.query:
                url += f"?{request.url.query}"
            return await http.request(request.method, url, content=content)

        for fault in self.faults:
            if fault.path == phase_of(request.url.path, body) and fault.times > 0:
                if fault.skip > 0:
                    fault.skip -= 1
                    break
                fault.times -= 1
                if fault.times == 0:
                    fault.over.set()
                self.hit.append(fault.path)
                return await fault.how(request, forward)
        try:
            answer = await forward()
        except httpx.HTTPError:
            return JSONResponse({"error": {"message": "no engine there"}}, status_code=502)
        if request.url.path == "/resume":
            self.answered = asyncio.Event()
        elif request.url.path == "/inference/v1/generate":
            self.answered.set()
        return passed_on(answer)


def passed_on(answer: httpx.Response) -> Response:
    return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))


async def refused(request: Request, forward: Forward) -> Response:
    return JSONResponse({"error": {"message": "injected"}}, status_code=500)


async def rejected_as_paused(request: Request, forward: Forward) -> Response:
    """A pause of another client, as vLLM 0.33 reports it."""
    message = {
        "message": "Generation is paused. Please retry after it resumes.",
        "type": "Service Unavailable",
        "code": 503,
    }
    return JSONResponse({"error": message}, status_code=503)


async def refused_afterwards(request: Request, forward: Forward) -> Response:
    """It was done, and the answer says that it was not."""
    await forward()
    return await refused(request, forward)


async def hanging(request: Request, forward: Forward) -> Response:
    await anyio.sleep(60)
    return await refused(request, forward)


async def hanging_afterwards(request: Request, forward: Forward) -> Response:
    await forward()
    return await hanging(request, forward)


async def swallowed(request: Request, forward: Forward) -> Response:
    """Nothing was done, and the answer says that it was."""
    return JSONResponse({"message": "done"})


async def half_the_names(request: Request, forward: Forward) -> Response:
    (receipt,) = (await forward()).json()["results"]
    return JSONResponse({"results": [{name: receipt[name] for name in sorted(receipt)[::2]}]})


async def without_spans(request: Request, forward: Forward) -> Response:
    answer = await forward()
    tree = answer.json()
    for choice in tree.get("choices", []):
        choice.pop("weight_versions")
    return JSONResponse(tree, status_code=answer.status_code)


def after_an_answer(proxy: Proxy) -> How:
    """Answers only once some request for tokens has been answered."""

    async def wait(request: Request, forward: Forward) -> Response:
        with anyio.fail_after(60):
            await proxy.answered.wait()
        return passed_on(await forward())

    return wait


def loading(other: Path) -> tuple[How, How]:
    """For update_weights and weight_receipt: an engine that loads other weights than it is told to, and says that it
    loaded what it was told to."""
    told: list[Path] = []

    async def load(request: Request, forward: Forward) -> Response:
        told.append(Path(json.loads(await request.body())["update_info"]["path"]))
        return passed_on(await forward(json.dumps({"update_info": {"path": str(other)}}).encode()))

    async def attest(request: Request, forward: Forward) -> Response:
        return JSONResponse({"results": [checkpoint_digests(told[-1])]})

    return load, attest


def server(answers: dict[str, Callable[[dict[str, object]], object]]) -> Listening:
    """A server that answers these paths, and a page elsewhere."""

    async def answer(request: Request) -> Response:
        body = await request.body()
        made = answers.get(request.url.path)
        if made is None:
            return Response("<html>\n  Not found here\n</html>", status_code=404)
        return JSONResponse(made(json.loads(body) if body else {}))

    return Listening(Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])]))


def own_tokens(body: dict[str, object]) -> object:
    from tokenizers import Tokenizer

    ids = Tokenizer.from_file(str(TINY / "tokenizer.json")).encode(str(body["prompt"]), add_special_tokens=False).ids
    return {"count": len(ids), "max_model_len": 2048, "tokens": ids}
