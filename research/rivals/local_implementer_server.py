"""A local OpenAI-compatible server in place of a model provider. It can fail in every known way.

    python research/rivals/local_implementer_server.py --port 8123 --fault-rate 0.3

It reads the program and the experiment from the question, makes the matching edit of the task's catalogue, and answers
with SEARCH/REPLACE edits or with the whole block. Where a task has no catalogue, it changes one number
(`number_moves`). It keeps a bill (`GET /bill`): the charged amount, and the calls for which a caller cannot know
whether they were charged. Without a key it answers 401, as providers do. Not a model: it understands only such edits.
An advisor's prompts get ideas that name them (`local_advice`).
"""

import argparse
import json
import random
import re
import socket
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pace_async.errors import CandidateFault
from pace_async.implement.catalogue import apply_edit, find_edit, load_catalogue
from pace_async.programs.text import START_MARK
from pace_async.providers.prices import Price
from pace_async.task import BLOCK_START, Task, load_task, split_block
from research.rivals import number_moves
from research.rivals.local_advice import NOTES, PAGE, POOL, advice, is_advice, leaving

USD_PER_MILLION_IN, USD_PER_MILLION_OUT = 2.0, 8.0
SERVICE_FAULTS: Mapping[str, str] = {
    "401": "bad_key",
    "429": "rate_limit",
    "429_wait": "rate_limit",
    "500": "server_error",
    "503": "server_error",
    "echo_key": "server_error",
    "hang": "timeout",
    "cut": "cut_stream",
    "garbage": "invalid_answer",
    "no_choice": "no_choice",
}
ANSWER_FAULTS: Mapping[str, str] = {
    "empty": "empty_answer",
    "refusal": "refusal",
    "length": "length",
    "no_code": "no_code_block",
    "two_blocks": "several_code_blocks",
    "wrong_language": "wrong_language",
    "search_nowhere": "search_not_found",
    "mixed": "mixed_answer",
    "outside": "edit_leaves_block",
    "unchanged": "unchanged",
    "syntax_error": "syntax_error",
    "markers": "markers_in_block",
    "huge": "answer_too_long",
    "echo_key_in_answer": "secret_in_answer",
}
"""What goes wrong, and the outcome that the caller must make of it."""
UNSEEN = ("hang", "cut", "garbage", "no_choice")
"""Those after which the caller cannot know whether it was charged."""
PRICE = Price.per_million(USD_PER_MILLION_IN, USD_PER_MILLION_OUT)
Plan = Callable[[int, str], str]
"""What call n (from 1) with this question shall get: a fault's name, or ok."""


def seeded_faults(rate: float, seed: int, kinds: Sequence[str] = (*SERVICE_FAULTS, *ANSWER_FAULTS)) -> Plan:
    """Each call fails with probability `rate`, all kinds equally likely."""
    draw = random.Random(seed)
    return lambda _number, _question: draw.choice(kinds) if draw.random() < rate else "ok"


@dataclass(slots=True)
class LocalProvider:
    """The server's state. `charged_usd` is its bill. `unknown` counts calls whose end the caller could not see, and
    `unknown_usd` is their highest possible cost."""

    task: Task
    plan: Plan = lambda _number, _question: "ok"
    accepts: Callable[[str], bool] = bool
    calls: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    charged_usd: float = 0.0
    unknown: int = 0
    unknown_usd: float = 0.0
    given: Counter[str] = field(default_factory=Counter[str])
    advised: Counter[str] = field(default_factory=Counter[str])
    """What advisors got; `given` is what implementers got."""
    bodies: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    gate: Callable[[], Any] | None = None
    """Awaited before each answer, for tests that hold calls in flight."""
    retry_after_s: float = 0.05
    """What a `429_wait` asks for."""
    author: Callable[[str], str] | None = None
    """Writes good answers in place of the catalogue's edit that the experiment names. A task without a catalogue gets
    `number_moves.answer`."""

    def __post_init__(self) -> None:
        if self.author is None and self.task.catalogue_path is None:
            self.author = number_moves.answer

    def app(self) -> Starlette:
        """The routes."""
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/bill", self._bill, methods=["GET"]),
            ]
        )

    async def _bill(self, _request: Request) -> Response:
        return JSONResponse(
            {
                "calls": self.calls,
                "usd": self.charged_usd,
                "unknown": self.unknown,
                "unknown_usd": self.unknown_usd,
                "given": dict(self.given),
                "advised": dict(self.advised),
            }
        )

    async def _chat(self, request: Request) -> Response:
        key = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if not self.accepts(key):
            return _error(401, f"Incorrect API key provided: {key}", "invalid_api_key")
        body = json.loads(await request.body())
        self.bodies.append(body)
        question = "\n".join(message["content"] for message in body["messages"])
        self.calls += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.gate is not None:
                await self.gate()
            behaviour = self.plan(self.calls, question)
            (self.advised if is_advice(question) else self.given)[behaviour] += 1
            if behaviour in UNSEEN:
                self.unknown += 1
                self.unknown_usd += PRICE.worst_case(body["messages"], _limit(body))
            return await self._behave(behaviour, request, question, key, _limit(body))
        finally:
            self.in_flight -= 1

    async def _behave(self, behaviour: str, request: Request, question: str, key: str, limit: int) -> Response:
        match behaviour:
            case "429" | "429_wait":
                headers = {"Retry-After": f"{self.retry_after_s:g}"} if behaviour == "429_wait" else {}
                return _error(429, "slow down", "rate_limit_exceeded", headers)
            case "401":
                return _error(401, f"Incorrect API key provided: {key}", "invalid_api_key")
            case "500" | "503" | "404" | "403" | "400":
                return _error(int(behaviour), "the server says no", "error")
            case "echo_key":
                return _error(500, f"failed with Authorization: Bearer {key} and key={key}", "error")
            case "hang":
                while (await request.receive())["type"] != "http.disconnect":
                    pass
                return Response()
            case "cut":
                return StreamingResponse(_cut(), headers={"content-length": "4096"}, media_type="application/json")
            case "garbage":
                return Response("<html>busy</html>", media_type="text/html")
            case "no_choice":
                return JSONResponse(_completion(None, "stop", 1, 1) | {"choices": []})
            case _:
                return self._answer(behaviour, question, key, limit)

    def _answer(self, behaviour: str, question: str, key: str, limit: int) -> Response:
        text = self._text(behaviour, question, key)
        finish = "length" if behaviour == "length" else "stop"
        prompt_tokens, completion_tokens = len(question) // 4 + 1, min(len(text or "") // 4 + 1, limit)
        self.charged_usd += PRICE.cost(prompt_tokens, completion_tokens)
        completion = _completion(text, finish, prompt_tokens, completion_tokens)
        if behaviour == "refusal":
            completion["choices"][0]["message"] |= {"content": None, "refusal": "I cannot help with that."}
        return JSONResponse(completion)

    def _text(self, behaviour: str, question: str, key: str) -> str | None:
        path = self.task.catalogue_path
        if NOTES in question:
            return PAGE if behaviour == "ok" else "no notes"
        if POOL in question:
            return leaving(question) if behaviour == "ok" else "Leave: none"
        if is_advice(question):
            return advice(behaviour, question, key, load_catalogue(path) if path is not None else None, self.calls)
        return self._words(behaviour, question, key) if START_MARK in question else "ready"

    def _words(self, behaviour: str, question: str, key: str) -> str | None:
        if behaviour == "ok" and self.author is not None:
            return self.author(question)
        program = _program_in(question)
        before, block, after = split_block(program)
        first = block.split("\n")[0]
        outside = next((line for line in (after + before).split("\n")[1:] if line.strip()), "")
        match behaviour:
            case "empty":
                return "  \n"
            case "length":
                return f"```python\n{block[: len(block) // 2]}"
            case "no_code" | "refusal":
                return "I would change the program as you say."
            case "two_blocks":
                return f"```python\n{block}```\nor\n```python\n{block}```\n"
            case "wrong_language":
                return f"```rust\n{block}```\n"
            case "search_nowhere":
                return _edit("no such line = 1", "x = 1")
            case "search_twice":  # only of a block with a line that stands twice
                return _edit(Counter(line for line in block.split("\n") if line.strip()).most_common(1)[0][0], "x = 1")
            case "mixed":
                return f"```python\n{block}```\n" + _edit(first, f"{first}  # again")
            case "outside":
                return _edit(outside, f"{outside}  # changed")
            case "unchanged":
                return f"```python\n{block}# nothing\n```\n"
            case "syntax_error":
                return f"```python\n{block}def (:\n```\n"
            case "markers":
                return f"```python\n{block}{BLOCK_START}\n```\n"
            case "huge":
                return "```python\n" + "# " + "x" * 2_000_000 + f"\n{block}```\n"
            case "append":  # an edit that any experiment may stand for
                return f"```python\n{block}added = {self.calls}\n```\n"
            case "rewrite":  # the same for scaffolds that want the whole program
                return f"```python\n{before}{block}added = {self.calls}\n{after}```\n"
            case "echo_key_in_answer":
                return f"```python\n{block}secret = {key!r}\n```\n"
            case _:
                return self._edited(question, block)

    def _edited(self, question: str, block: str) -> str:
        """The catalogue's edit, or a sentence without code if the experiment names none."""
        experiment = re.findall(r"^Experiment: (.*)$", question, re.MULTILINE)
        path = self.task.catalogue_path
        if not experiment or path is None:
            return "I see no experiment."
        try:
            new = apply_edit(block, find_edit(load_catalogue(path), experiment[-1]))
        except CandidateFault as fault:
            return f"I cannot do that: {fault.detail}."
        if self.calls % 2:
            return f"Here is the block.\n\n```python\n{new}```\n"
        pairs = zip(block.split("\n"), new.split("\n"), strict=True)
        changed = [(old, line) for old, line in pairs if old != line]
        return "\n".join(_edit(old, line) for old, line in changed) or f"```python\n{block}```\n"


def _program_in(question: str) -> str:
    fenced = re.findall(r"^(`{3,})python\n(.*?)^\1$", question, re.MULTILINE | re.DOTALL)
    return next(text for _, text in fenced if BLOCK_START in text and "def " in text)


def _limit(body: Mapping[str, Any]) -> int:
    """The requested limit of the answer, in tokens. No provider bills more, however long its answer is."""
    return int(body.get("max_completion_tokens") or body.get("max_tokens") or 8192)


def _edit(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"


def _completion(text: str | None, finish: str, prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    return {
        "id": "local",
        "object": "chat.completion",
        "created": 1,
        "model": "local",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _error(status: int, message: str, code: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": {"message": message, "code": code}}, status, headers=headers)


async def _cut() -> AsyncGenerator[bytes]:
    yield b'{"id": "local", "choi'
    raise ConnectionError("the stream is cut here")


@contextmanager
def serving(provider: LocalProvider, port: int = 0) -> Generator[str]:
    """Serve on loopback from a thread, with connections accepted at once. Yields the base URL of the API."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(256)
        server = _server(provider)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            server.should_exit = server.force_exit = True
            thread.join(10)


def _server(provider: LocalProvider) -> uvicorn.Server:
    """Idle connections stay open, because one that closes as a question arrives would be an unplanned fault."""
    return uvicorn.Server(
        uvicorn.Config(
            provider.app(), log_config=None, log_level="critical", ws="none", lifespan="off", timeout_keep_alive=3600
        )
    )


@contextmanager
def _at(provider: LocalProvider, port: int) -> Generator[str]:
    try:
        with serving(provider, port) as url:
            yield url
    except OSError as error:
        raise SystemExit(f"port {port} cannot be used ({error.strerror}): name another with --port.") from None


def _any_move(task: Task, seed: int) -> Callable[[str], str]:
    from research.rivals.catalogue_moves import move_answer  # beside this script, which tests import from elsewhere

    if task.catalogue_path is None:
        raise SystemExit(f"{task.name} has no catalogue.")
    catalogue, draw = load_catalogue(task.catalogue_path), random.Random(seed)
    return lambda question: move_answer(question, catalogue, draw)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="A local OpenAI-compatible server that answers with catalogue edits.")
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--task", default="circle_packing")
    parser.add_argument("--fault-rate", type=float, default=0.0, help="Share of calls that go wrong, 0 to 1.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.0, help="Seconds before each answer.")
    parser.add_argument("--append", action="store_true", help="Append a line, whatever the experiment says.")
    parser.add_argument("--rewrite", action="store_true", help="The same with the whole program as answer.")
    parser.add_argument("--moves", action="store_true", help="Any edit of the catalogue, whatever the experiment says.")
    arguments = parser.parse_args()
    always = "append" if arguments.append else "rewrite" if arguments.rewrite else None
    plan = seeded_faults(arguments.fault_rate, arguments.seed)
    provider = LocalProvider(load_task(arguments.task), plan if always is None else lambda _n, _q: always)
    provider.gate = lambda: anyio.sleep(arguments.delay)
    if arguments.moves:
        provider.author = _any_move(provider.task, arguments.seed)
    with _at(provider, arguments.port) as url:
        print(f"serving {url} (any key will do); Ctrl-C ends it", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print(f"charged {provider.charged_usd:.6f} USD for {provider.calls} calls")


if __name__ == "__main__":
    main()
