"""Servers on loopback in place of providers: one that answers what it is told, and one that breaks connections."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Answer = Callable[[dict[str, Any]], tuple[int, object]]
"""The status and the body, as JSON or as bytes, that a request's body gets."""


@dataclass(slots=True)
class Asked:
    """What a server was asked: the bodies, in order."""

    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    paths: list[str] = field(default_factory=list[str])


@contextmanager
def answering(answer: Answer) -> Generator[tuple[str, Asked]]:
    """Serves until the context ends. Yields the address, and what is asked."""
    asked = Asked()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            asked.bodies.append(body)
            asked.paths.append(self.path)
            status, said = answer(body)
            data = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)


_BEGUN = {
    "reset in the body": b'HTTP/1.1 200 OK\r\ncontent-length: 4096\r\n\r\n{"id": "x", "choi',
    "close in a chunk": b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{"id": "x", "choi',
    "close in a body of no length": b'HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"id": "x", "choi',
}
"""What is sent of an answer before its connection breaks."""
Break = Literal["close", "reset", "reset in the body", "close in a chunk", "close in a body of no length"]


@contextmanager
def breaking(how: Break) -> Generator[tuple[str, list[int]]]:
    """Reads each request whole, and then breaks the connection. Yields the address, and a list with an entry for each
    request."""
    taken: list[int] = []
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                if _whole_request(connection):
                    taken.append(1)
                connection.sendall(_BEGUN.get(how, b""))
                if how.startswith("reset"):
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", taken
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(60)


def _whole_request(connection: socket.socket) -> bool:
    with connection.makefile("rb") as stream:
        length = 0
        while (line := stream.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return len(stream.read(length)) == length > 0


def openai_body(
    content: object,
    finish: object = "stop",
    choice: Mapping[str, object] | None = None,
    usage: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """An answer in OpenAI's form. `choice` is added to its only choice, and `usage` to its numbers of tokens."""
    own: dict[str, object] = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": content},
    }
    counted: dict[str, object] = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "local",
        "choices": [{**own, **(choice or {})}],
        "usage": {**counted, **(usage or {})},
    }


def anthropic_body(text: str, reason: str) -> dict[str, Any]:
    """An answer in Anthropic's form."""
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": text}],
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 20},
    }


def gemini_body(text: str, reason: str) -> dict[str, Any]:
    """An answer in Gemini's form."""
    return {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": text}]}, "finishReason": reason}],
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120},
    }


def cohere_body(text: str, reason: str) -> dict[str, Any]:
    """An answer in the form of Cohere's second interface."""
    return {
        "id": "c",
        "message": {"role": "assistant", "content": [{"type": "text", "text": text}]},
        "finish_reason": reason,
        "usage": {
            "billed_units": {"input_tokens": 100, "output_tokens": 20},
            "tokens": {"input_tokens": 100, "output_tokens": 20},
        },
    }


def ollama_body(text: str, reason: str) -> dict[str, Any]:
    """An answer in ollama's form."""
    return {
        "model": "m",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": text},
        "done": True,
        "done_reason": reason,
        "prompt_eval_count": 100,
        "eval_count": 20,
    }


def bedrock_body(text: str, reason: str) -> dict[str, Any]:
    """An answer in the form of Bedrock's Converse."""
    return {
        "output": {"message": {"role": "assistant", "content": [{"text": text}]}},
        "stopReason": reason,
        "usage": {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120},
        "metrics": {"latencyMs": 1},
    }
