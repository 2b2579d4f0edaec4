"""Helper processes that can be killed. Functions on untrusted texts are called in them.

Invariant: a text's processor time and memory are bounded and are used outside the event loop. A text that needs more
ends only its process, and that is the candidate's fault. A process that ends for another reason is started again, once.
Answers are JSON, so a process that a text has taken over can only give a wrong answer about that text.

A function stands at the top of a module of this package, is pure, and maps texts to JSON values. Without
`with_helpers`, as in simulations, whose texts are our own, the function is called in this process.
"""

import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from pace_async.children import child, clean_environment, die_with_parent, python_module
from pace_async.errors import CandidateFault, InfrastructureFault, PaceBug

PROCESSES = 2
PROCESSOR_S = 5.0
"""Of one call. A program of a megabyte that is not made to be slow takes about one."""
MEMORY_MB = 1024
WAIT_S = 120.0
"""For an answer, by the clock: a process that gets no processor for so long is given up."""
LONGEST_REPLY = 64 << 20
PACKAGE = "pace_async"
ITS_OWN = (signal.SIGPROF, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
"""Signals by which a process ends for what it worked on."""

TextFunction = Callable[..., dict[str, Any]]


class TooMuchWork(CandidateFault):
    """A text needed more processor time or memory than the limit. `detail` names which."""

    def __init__(self, detail: str) -> None:
        super().__init__("too_much_work", detail)


async def in_helper(function: TextFunction, *texts: str) -> dict[str, Any]:
    """The result of `function` for `texts`. Raises TooMuchWork, and InfrastructureFault if no process can be
    started."""
    if _open is None:
        return function(*texts)
    return await _open.call(function, texts)


def helpers_run() -> bool:
    """Whether `with_helpers` is in force."""
    return _open is not None


@asynccontextmanager
async def with_helpers(processor_s: float = PROCESSOR_S, memory_mb: int = MEMORY_MB) -> AsyncGenerator[None]:
    """Inside the block, functions are called in processes. They start when needed. Nested blocks share them."""
    global _open
    if _open is not None:
        yield
        return
    async with Pool(processor_s, memory_mb) as _open:
        try:
            yield
        finally:
            _open = None


@dataclass(slots=True)
class Pool:
    """At most PROCESSES helper processes. Use as an async context manager. `started` counts them."""

    processor_s: float
    memory_mb: int
    started: int = 0
    _slots: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(PROCESSES))
    _idle: list["_Worker"] = field(default_factory=list["_Worker"])
    _alive: set["_Worker"] = field(default_factory=set["_Worker"])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            for worker in tuple(self._alive):
                await self._end(worker)

    async def call(self, function: TextFunction, texts: Sequence[str]) -> dict[str, Any]:
        """See `in_helper`."""
        async with self._slots:
            for _ in range(2):
                worker = self._idle.pop() if self._idle else await self._start()
                reply: dict[str, Any] | None = None
                try:
                    with anyio.fail_after(WAIT_S):
                        reply = await worker.ask(f"{function.__module__}:{function.__name__}", texts)
                except TimeoutError:
                    raise InfrastructureFault("texts", f"no answer within {WAIT_S:g} s") from None
                finally:
                    if reply is None:
                        with anyio.CancelScope(shield=True):
                            await self._end(worker)
                    else:
                        self._idle.append(worker)
                if reply is not None:
                    return _result_of(reply, self.memory_mb)
                if worker.ended in ITS_OWN:
                    raise TooMuchWork(self._reason_for(worker.ended))
        raise InfrastructureFault("texts", "the process that reads texts was ended twice")

    def _reason_for(self, ended: int) -> str:
        if ended == signal.SIGPROF:
            return f"takes more than {self.processor_s:g} s of processor time"
        return f"crashes Python's compiler ({signal.Signals(ended).name})"

    async def _start(self) -> "_Worker":
        stack = AsyncExitStack()
        limits = (str(self.processor_s), str(self.memory_mb))
        command = python_module(__name__, *limits)
        process = await stack.enter_async_context(child(command, log=Path(os.devnull), environment=clean_environment()))
        self.started += 1
        worker = _Worker(process, stack)
        self._alive.add(worker)
        return worker

    async def _end(self, worker: "_Worker") -> None:
        self._alive.discard(worker)
        await worker.close()


class _Worker:
    """One process. `ended` is the signal that ended it, set when it is closed."""

    def __init__(self, process: Process, stack: AsyncExitStack) -> None:
        assert process.stdout is not None
        self._process, self._stack = process, stack
        self._replies = BufferedByteReceiveStream(process.stdout)
        self.ended = 0

    async def ask(self, name: str, texts: Sequence[str]) -> dict[str, Any] | None:
        """The reply, or None if the process ended."""
        assert self._process.stdin is not None
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        head = json.dumps({"call": name, "lengths": [len(text) for text in encoded]})
        try:
            await self._process.stdin.send(head.encode() + b"\n" + b"".join(encoded))
            return json.loads(await self._replies.receive_until(b"\n", LONGEST_REPLY))
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._process.wait()
            return None

    async def close(self) -> None:
        """End it."""
        if self._process.returncode is None:
            self._process.kill()
        await self._stack.aclose()
        self.ended = -(self._process.returncode or 0)


_open: Pool | None = None


def _result_of(reply: dict[str, Any], memory_mb: int) -> dict[str, Any]:
    if "memory" in reply:
        raise TooMuchWork(f"takes more than {memory_mb} MiB of memory")
    if "bug" in reply:
        raise PaceBug(f"work on a text: {reply['bug']}")
    return reply["result"]


def main(processor_s: float, memory_mb: int) -> None:
    """Serve until standard input ends. Each call has its own processor time. No handler is set for the timer's signal,
    so it ends the process."""
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    while line := requests.readline():
        request: dict[str, Any] = json.loads(line)
        texts = [requests.read(length).decode("utf-8", "surrogatepass") for length in request["lengths"]]
        module, _, name = str(request["call"]).partition(":")
        if module.partition(".")[0] != PACKAGE:
            raise PaceBug(f"{module} is not of this package")
        function: TextFunction = getattr(importlib.import_module(module), name)
        signal.setitimer(signal.ITIMER_PROF, processor_s)
        try:
            reply: dict[str, Any] = {"result": function(*texts)}
        except MemoryError:
            reply = {"memory": True}
        except Exception as error:
            reply = {"bug": f"{type(error).__name__}: {error}"}
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        replies.write(json.dumps(reply).encode() + b"\n")
        replies.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
