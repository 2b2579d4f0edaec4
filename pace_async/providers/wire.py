"""One call over HTTP: what its provider answered, and that it was asked once.

Invariant: of one call a provider gets one request. litellm asks a second time if a connection broke, although the first
request may have been taken and is billed then, and a provider's client of its own may do so too. A second request of
the same call gets what the first one got.

litellm keeps little of an answer's body, which `received` reads. So its handler of HTTP is changed.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Exchange:
    """What one call got over HTTP. `asked` are the addresses of its requests with the response or the error of each,
    `response` is that of the newest, None if there was none."""

    asked: dict[str, Any] = field(default_factory=dict[str, Any])
    response: Any = None

    @property
    def status(self) -> int | None:
        """The status of the provider's answer, None without one."""
        return None if self.response is None else int(self.response.status_code)

    @property
    def body(self) -> object:
        """The body of an answer with status 200, as JSON gives it. None if there is none that can be read."""
        if self.status != 200:
            return None
        try:
            return self.response.json()
        except Exception:  # it was cut, or is no JSON: httpx, zlib and json have an error each
            return None


_current: ContextVar[Exchange | None] = ContextVar("pace_exchange", default=None)


@contextmanager
def recorded() -> Generator[Exchange]:
    """What is asked and answered inside the context, in this task and in threads that it starts."""
    exchange = Exchange()
    before = _current.set(exchange)
    try:
        yield exchange
    finally:
        _current.reset(before)


def recording(transport: Any) -> Any:
    """A class like httpx's asynchronous `transport`, whose responses belong to the current exchange."""

    class Recording(transport):
        async def handle_async_request(self, request: Any) -> Any:
            exchange = _current.get()
            if exchange is None or request.method != "POST":
                return await transport.handle_async_request(self, request)
            url = str(request.url)
            if url in exchange.asked:
                return _again(exchange.asked[url], request)
            try:
                response = await transport.handle_async_request(self, request)
            except Exception as error:
                exchange.asked[url], exchange.response = error, None
                raise
            exchange.asked[url] = exchange.response = response
            return response

    return Recording


def _again(before: Any, request: Any) -> Any:
    """The response or the error of the same request."""
    if isinstance(before, Exception):
        raise before
    headers = [(name, value) for name, value in before.headers.items() if name.lower() != "content-encoding"]
    return type(before)(before.status_code, headers=headers, content=before.content, request=request)


async def no_second_request(*_: object, **__: object) -> Any:
    """In place of a repetition inside an `except` block: the error is raised that led there."""
    raise  # noqa: PLE0704
