"""A Ray cluster, as far as pace uses it: its nodes, and actors that are pinned to a node and found by their name.

The runtime is not connected itself. A child process is (`driver`), and this module asks it. When that process or its
connection is lost, another one is started, as often as needed, and meanwhile each call is unanswered.

Invariants: neither our environment, nor our command line, nor our folder reaches a node. Every wait has a deadline.
"""

import math
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.abc import Process, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from pace_async.children import child, clean_environment, kill_group, python_module, wait_silent
from pace_async.errors import UsageError
from pace_async.evaluate.on_ray.frames import (
    ActorLost,
    DriverAnswer,
    DriverRequest,
    NodeSeen,
    Reservation,
    StoredValue,
    Unanswered,
    framed,
    next_message,
)
from pace_async.installing import install_line

__all__ = ["Actor", "ActorLost", "Cluster", "NodeSeen", "Reservation", "Unanswered", "connected"]
NO_LOG = Path(os.devnull)
SHUTDOWN_S = 10.0
ANSWER_S = 5.0
"""How long something may take to answer at an address."""
AGAIN_S = 1.0
LONGEST_AGAIN_S = 30.0


def refuse_unless_installed() -> None:
    """Raises UsageError without Ray."""
    if find_spec("ray") is None:
        raise UsageError(f"Evaluations on Ray need Ray, which is not installed here: {install_line('ray')}.")


@dataclass(eq=False, slots=True)
class _Waiting:
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: DriverAnswer | None = None


class Actor:
    """One actor, by its name. Its calls are ordered, as long as the connection lasts."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self._cluster, self.name = cluster, name

    async def call(self, method: str, *arguments: object) -> Any:
        """Call a method and wait. A task that stops waiting ends nothing on the node. Raises ActorLost, Unanswered, and
        whatever the method raises."""
        return await self._cluster.ask("call", self.name, method, arguments)

    def kill(self) -> None:
        """End it at once, also while it is pending."""
        self._cluster.tell("kill", self.name)


class Cluster:
    """The connection. `why` says why there is none."""

    def __init__(self, address: str, timeout_s: float, environment: Mapping[str, str], log: Path) -> None:
        self._address, self._timeout_s, self._environment = address, timeout_s, dict(environment)
        self._log = log
        self._host, self._port = _parted(address)
        self._out: MemoryObjectSendStream[DriverRequest] | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._values: dict[str, object] = {}
        self._last = 0
        self._changed = anyio.Event()
        self.why = ""

    async def nodes(self) -> list[NodeSeen]:
        """The nodes that are alive. Waits for a connection."""
        return await self._ask_until_answered("nodes")

    async def named(self, prefix: str) -> list[Actor]:
        """The living actors whose names begin so. Waits for a connection."""
        return [Actor(self, name) for name in cast("list[str]", await self._ask_until_answered("named", prefix))]

    async def put(self, value: object) -> StoredValue:
        """A stand-in for a value in Ray's object store, where each node keeps one copy."""
        stored = StoredValue(f"value-{len(self._values)}")
        self._values[stored.key] = value
        with suppress(Unanswered):  # each further connection begins with all values
            await self.ask("put", stored.key, value)
        return stored

    async def _ask_until_answered(self, operation: Any, *arguments: object) -> Any:
        while True:
            await self.back()
            with suppress(Unanswered):
                return await self.ask(operation, *arguments)
            await anyio.sleep(AGAIN_S)

    async def start(self, name: str, node: NodeSeen, reserved: Reservation) -> Actor:
        """An actor on this node. It may be pending when this returns. Raises Unanswered."""
        await self.ask("start", name, node.id, reserved)
        return Actor(self, name)

    async def request(self, bundles: list[dict[str, float]]) -> None:
        """Ask the autoscaler for a cluster in which all of these have room at once, in place of what was asked before.
        Nothing is asked while there is no connection."""
        with suppress(Unanswered):
            await self.ask("request", bundles)

    async def back(self) -> None:
        """Wait until there is a connection."""
        while self._out is None:
            await self._changed.wait()

    async def ask(self, operation: Any, *arguments: object) -> Any:
        """Raises Unanswered if the connection is lost before the answer."""
        if self._out is None:
            raise Unanswered(self.why or "there is no connection to the cluster")
        self._last += 1
        number, waiting = self._last, _Waiting()
        self._waiting[number] = waiting
        try:
            self._out.send_nowait(DriverRequest(number, operation, arguments))
            await waiting.done.wait()
        finally:
            del self._waiting[number]
        if waiting.answer is None:
            raise Unanswered(self.why)
        if waiting.answer.error is not None:
            raise waiting.answer.error
        return waiting.answer.value

    def tell(self, operation: Any, *arguments: object) -> None:
        """Ask, and wait for no answer."""
        if self._out is not None:
            self._out.send_nowait(DriverRequest(-1, operation, arguments))

    async def keep(self, *, task_status: TaskStatus[None]) -> None:
        """Stay connected until cancelled. Raises UsageError if the first connection fails."""
        pause, first = AGAIN_S, True
        while True:
            try:
                async with _driver(self._address, self._host, self._port, self._environment, self._log) as process:
                    await self._serve(process, task_status if first else None)
                    first, pause = False, AGAIN_S
            except UsageError as error:
                if first:
                    raise
                self.why = str(error).rstrip(".")
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_AGAIN_S)

    async def _serve(self, process: Process, task_status: TaskStatus[None] | None) -> None:
        """Return when this process or its connection is lost. Raises UsageError."""
        assert process.stdin is not None and process.stdout is not None
        answers = BufferedByteReceiveStream(process.stdout)
        await self._ready(answers)
        # No more requests wait than calls are under way.
        out, requests = anyio.create_memory_object_stream[DriverRequest](math.inf)
        with out, requests:
            async with anyio.create_task_group() as group:
                group.start_soon(self._write, process, requests)
                for key, value in self._values.items():
                    out.send_nowait(DriverRequest(-1, "put", (key, value)))
                self._out, self.why = out, ""
                self._tell_change()
                if task_status is not None:
                    task_status.started()
                group.start_soon(self._guard, process)
                try:
                    await self._receive_answers(answers)
                finally:
                    self._lost()
                    with anyio.move_on_after(SHUTDOWN_S, shield=True):
                        await self._write_rest(process, requests)
                    group.cancel_scope.cancel()

    async def _ready(self, answers: BufferedByteReceiveStream) -> None:
        silent = (
            f"The Ray cluster at {self._address} did not answer within {self._timeout_s:.0f} s: is this the port of its"
            " head, and does it have the token of this machine (RAY_AUTH_MODE=token, RAY_AUTH_TOKEN_PATH)?"
        )
        with anyio.move_on_after(self._timeout_s):
            try:
                answer = cast("DriverAnswer", await next_message(answers.receive_exactly))
            except (anyio.EndOfStream, anyio.IncompleteRead):
                raise UsageError(
                    f"The Ray cluster at {self._address} cannot be used: Ray ended this program's connection to it."
                ) from None
            if answer.error is not None:
                raise answer.error
            return
        raise UsageError(silent)

    def _lost(self) -> None:
        self._out = None
        self.why = self.why or f"the connection to the Ray cluster at {self._address} is lost"
        for waiting in self._waiting.values():
            waiting.done.set()
        self._tell_change()

    def _tell_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _write(self, process: Process, requests: MemoryObjectReceiveStream[DriverRequest]) -> None:
        assert process.stdin is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for request in requests:
                await process.stdin.send(framed(request))

    async def _write_rest(self, process: Process, requests: MemoryObjectReceiveStream[DriverRequest]) -> None:
        """Write the last requests, such as `kill`."""
        assert process.stdin is not None
        with suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                await process.stdin.send(framed(requests.receive_nowait()))

    async def _receive_answers(self, answers: BufferedByteReceiveStream) -> None:
        with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                answer = cast("DriverAnswer", await next_message(answers.receive_exactly))
                if (waiting := self._waiting.get(answer.number)) is not None:
                    waiting.answer = answer
                    waiting.done.set()

    async def _guard(self, process: Process) -> None:
        """End a process that has stopped answering: a head that is gone makes Ray wait."""

        async def look() -> bool:
            with suppress(Unanswered):
                return await self.ask("nodes") is not None
            return False

        await wait_silent(look, self._timeout_s)
        self.why = f"the Ray cluster at {self._address} did not answer for {self._timeout_s:.0f} s"
        kill_group(process.pid)


@asynccontextmanager
async def connected(
    address: str, timeout_s: float, environment: Mapping[str, str], log: Path = NO_LOG
) -> AsyncGenerator[Cluster]:
    """A connection. `environment` are Ray's variables for it, such as where its token lies. `log` gets what Ray
    prints. Raises UsageError, in one sentence, if no cluster can be used at this address."""
    refuse_unless_installed()
    cluster = Cluster(address, timeout_s, environment, log)
    group = await anyio.create_task_group().__aenter__()
    try:
        await group.start(cluster.keep)
        yield cluster
    finally:  # an error of the body passes unchanged, without an exception group
        group.cancel_scope.cancel()
        with suppress(UsageError):  # raised by `start` already
            await group.__aexit__(None, None, None)


@asynccontextmanager
async def _driver(
    address: str, host: str, port: int, environment: Mapping[str, str], log: Path
) -> AsyncGenerator[Process]:
    own = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    variables = clean_environment(**{**own, **environment, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"})
    command = python_module("pace_async.evaluate.on_ray.driver", address, host, str(port), str(ANSWER_S))
    async with child(command, log=log, environment=variables, patience_s=SHUTDOWN_S) as process:
        yield process


def _parted(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise UsageError(f"{address!r} is not an address of a Ray cluster: give HOST:PORT, such as 10.0.0.5:6379.")
    return host.strip("[]"), int(port)
