"""An engine as a child process of the runtime: start, watch, restart, stop.

Invariant: a restart keeps the engine's address, so clients and publishers need no change. After the context ends, none
of its processes runs. `wait_lost` reports an engine that died or stopped answering. The runtime decides to restart it.
Imports no torch.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from pace_async.children import (
    KilledOutside,
    child,
    clean_environment,
    kill_group,
    killed_by,
    python_module,
    wait_silent,
)
from pace_async.errors import InfrastructureFault, UsageError


class EngineProcess(ABC):
    """At most one engine process at a time, for any kind of engine. `url` has no trailing slash."""

    def __init__(self, *, log: Path, start_s: float) -> None:
        self._log = log
        self._start_s = start_s
        self._port = 0
        self._child = AsyncExitStack()
        self._process: Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        return self._running.pid

    async def wait_died(self) -> int:
        """Wait until the engine ends for any reason. Returns its exit status (negative: the signal)."""
        return await self._running.wait()

    async def wait_lost(self, hung_s: float) -> InfrastructureFault:
        """Wait until the engine ends, or answers no health check for `hung_s` seconds. Then it is killed. Requests in
        progress do not delay a health check."""
        process, hung = self._running, False
        async with anyio.create_task_group() as tasks, self._health() as answers:

            async def ends() -> None:
                await process.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(ends)
            await wait_silent(answers, hung_s)
            hung = True
            tasks.cancel_scope.cancel()
        if hung:
            self.kill()
            return InfrastructureFault("engine_hung", f"no answer for {hung_s:g} s, so it was killed: restarting it")
        return InfrastructureFault("engine_died", f"it ended with status {process.returncode}: restarting it")

    async def killed(self) -> KilledOutside | None:
        """The fault if the engine was ended by another process while it started."""
        ended_by = await killed_by(self._process) if self._process is not None else ""
        words = f"it was ended by {ended_by} while it started; see {self._log}"
        return KilledOutside("engine_died", words) if ended_by else None

    def kill(self) -> None:
        """Kill the engine. `wait_died` returns."""
        if self._process is not None and self._process.returncode is None:
            kill_group(self._process.pid)

    @asynccontextmanager
    async def _health(self) -> AsyncGenerator[Callable[[], Awaitable[bool]]]:
        """Yields a function that performs one health check."""
        async with httpx.AsyncClient(base_url=self.url, timeout=None, trust_env=False) as http:

            async def answers() -> bool:
                try:
                    return (await http.get("/health")).status_code == 200
                except httpx.HTTPError:
                    return False

            yield answers

    async def stop(self) -> None:
        """Stop the engine. Does nothing if none runs."""
        stack, self._child = self._child, AsyncExitStack()
        self._process = None
        await stack.aclose()

    async def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the child and wait until it serves. Raises InfrastructureFault, KilledOutside for one, after which no
        process runs."""
        try:
            self._process = await self._child.enter_async_context(
                child(command, log=self._log, environment=environment)
            )
            with anyio.fail_after(self._start_s):
                self._port = await self._serving(self._process)
        except TimeoutError:
            await self.stop()
            raise InfrastructureFault("engine_start", f"not up after {self._start_s:g} s; see {self._log}") from None
        except InfrastructureFault as fault:
            killed = await self.killed()
            await self.stop()
            raise killed or fault from None
        except BaseException:
            await self.stop()
            raise

    @abstractmethod
    async def _serving(self, process: Process) -> int:
        """Wait until the child serves. Returns its port. Raises InfrastructureFault("engine_start")."""

    @property
    def _running(self) -> Process:
        if self._process is None:
            raise InfrastructureFault("engine_stopped", "the engine is not running")
        return self._process


def refuse_unless_model(model: Path) -> None:
    """Raises UsageError for a directory without a model."""
    if not (model / "config.json").is_file():
        raise UsageError(f"{model} is not a model directory: it has no config.json.")


class EngineHandle(EngineProcess):
    """The embedded engine. Its standard error goes to `log`. `threads` is the number of threads of a tensor operation,
    `gpu` the card as CUDA_VISIBLE_DEVICES names it (None: the first)."""

    def __init__(
        self, *, log: Path, max_rows: int = 32, threads: int = 1, start_s: float = 180.0, gpu: str | None = None
    ) -> None:
        super().__init__(log=log, start_s=start_s)
        self._card = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}
        self._max_rows = max_rows
        self._threads = threads

    async def restart(self, model: Path, version: int) -> None:
        """Stop the engine and start it with the weights in `model`, labelled `version`. Raises InfrastructureFault."""
        await self.stop()
        await self.start(model, version)

    async def start(self, model: Path, version: int) -> None:
        """Raises UsageError for a directory without a model, InfrastructureFault if the engine does not start."""
        refuse_unless_model(model)
        command = python_module(
            "pace_async.advise.engines.embedded",
            *("--model", str(model), "--version", str(version), "--port", str(self._port)),
            *("--max-rows", str(self._max_rows), "--threads", str(self._threads)),
        )
        await self._run(command, clean_environment(OMP_NUM_THREADS=str(self._threads), **self._card))

    async def _serving(self, process: Process) -> int:
        """The port of the ready line."""
        stdout = cast("ByteReceiveStream", process.stdout)
        try:
            line = await BufferedByteReceiveStream(stdout).receive_until(b"\n", 65536)
            ready: dict[str, Any] = json.loads(line)
        except (anyio.IncompleteRead, anyio.DelimiterNotFound, ValueError):
            raise InfrastructureFault("engine_start", f"the engine ended before it served; see {self._log}") from None
        if not ready.get("ready"):
            raise InfrastructureFault("engine_start", f"{ready.get('error')}; see {self._log}")
        return int(ready["port"])


@asynccontextmanager
async def managed_engine(handle: EngineHandle, model: Path, version: int = 0) -> AsyncGenerator[EngineHandle]:
    """The same engine, which serves `model`, labelled `version`, until the end of the context. Raises UsageError,
    InfrastructureFault("engine_start")."""
    await handle.start(model, version)
    try:
        yield handle
    finally:
        await handle.stop()
