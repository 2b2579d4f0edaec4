"""One call over HTTP: what its provider answered, and that it was asked once.

litellm asks a second time if a connection broke, although the first request may have been taken and is billed then.
And it keeps little of the answer's body, which `received` reads. So its handler of HTTP is changed in two places.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Exchange:
    """The newest HTTP response of one call, None if there was none."""

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
            response = await transport.handle_async_request(self, request)
            exchange = _current.get()
            if exchange is not None:
                exchange.response = response
            return response

    return Recording


async def no_second_request(*_: object, **__: object) -> Any:
    """In place of a repetition inside an `except` block: the error is raised that led there."""
    raise  # noqa: PLE0704
