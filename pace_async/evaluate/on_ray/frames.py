"""What crosses between the runtime and its process that is connected to Ray: requests, answers, and their frames.

A frame is a length of eight bytes and a pickle. Both processes are of this machine and of this package.
"""

import pickle
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

HEAD_BYTES = 8


class ActorLost(Exception):
    """An actor or its node has died. The text is one line for a person."""


class Unanswered(Exception):
    """A call has no answer, and its actor may be alive. Whether it ran is not known."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A living node: its identity in Ray, a name for a person, and what no actor has reserved."""

    id: str
    name: str
    free: dict[str, float]


@dataclass(frozen=True, slots=True)
class Reservation:
    """What an actor reserves of its node, by Ray's names, and whether it outlives the connection that started it."""

    resources: dict[str, float]
    outlives: bool = False


@dataclass(frozen=True, slots=True)
class StoredValue:
    """Stands for a value in Ray's object store."""

    key: str


@dataclass(frozen=True, slots=True)
class DriverRequest:
    """A request. `number` is that of its answer."""

    number: int
    what: Literal["nodes", "named", "put", "start", "call", "kill", "request"]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class DriverAnswer:
    """The answer to the request with this number, or the error that it raised. Number 0 is the connection itself."""

    number: int
    value: Any = None
    error: Exception | None = None


def framed(message: DriverRequest | DriverAnswer) -> bytes:
    """One frame. An error that cannot cross becomes a RuntimeError of its text, and so does a value."""
    try:
        body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        if isinstance(message, DriverRequest):
            raise
        substitute = RuntimeError(str(message.error or error))
        body = pickle.dumps(DriverAnswer(message.number, None, substitute), pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(HEAD_BYTES) + body


async def next_message(exactly: Callable[[int], Awaitable[bytes]]) -> Any:
    """The next message. `exactly` reads so many bytes."""
    return pickle.loads(await exactly(int.from_bytes(await exactly(HEAD_BYTES))))
