"""The runtime's side of the scorer: ask, with a deadline, and start it again if it died.

Invariant: a reply always belongs to the request that waits for it; a scorer that missed a deadline or broke off is
killed and never read from again.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from pace_async.children import child, clean_environment, python_module
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.task import FULL, Setting

START_S = 60.0
LONGEST_REPLY = 256 << 20


@dataclass(frozen=True, slots=True)
class Scored:
    """`score` is None where the outputs, or the score, were not allowed; then `invalid` says why, and `raised` where
    the evaluator made a mistake of its own about them, if it did."""

    score: float | None
    metrics: Mapping[str, float]
    invalid: str = ""
    raised: str = ""


class EvaluatorFailed(InfrastructureFault):
    """The task's evaluator raised an error of its own: `detail` says where and what."""

    def __init__(self, detail: str) -> None:
        super().__init__("evaluator_failed", detail)


class Scorer:
    """One child process for one task; requests are served one at a time. Use as an async context manager."""

    def __init__(
        self,
        evaluator: Path,
        log: Path,
        timeout_s: float = 60.0,
        settings: Mapping[str, Setting] | None = None,
        stages: Sequence[str] = (),
    ) -> None:
        """`timeout_s` bounds one request; starting is bounded by START_S. `stages` are those of the task's cascade.
        `timed`, known once it has started, says whether a score hangs on the seconds that the calls took."""
        self._evaluator, self._log, self._timeout_s = evaluator, log, timeout_s
        self._settings, self._stages = dict(settings or {}), list(stages)
        self.timed = False
        self._lock = anyio.Lock()
        self._stack = AsyncExitStack()
        self._process: Process | None = None
        self._replies: BufferedByteReceiveStream | None = None
        self._instances: dict[tuple[int, str], list[str]] = {}

    async def __aenter__(self) -> Self:
        async with self._lock:
            await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def instances(self, seed: int, stage: str = FULL) -> list[str]:
        """JSON text of each instance. Raises UsageError if the evaluator cannot make them, in its own
        words where it misses a file."""
        if (seed, stage) not in self._instances:
            reply = await self._ask({"op": "instances", "seed": seed, "stage": stage}, b"")
            if "missing" in reply:
                raise UsageError(f"{reply['missing'].rstrip('.')}.")
            if "fault" in reply:
                raise UsageError(f"{self._evaluator}: instances failed: {reply['fault']}.")
            self._instances[seed, stage] = reply["instances"]
        return self._instances[seed, stage]

    async def score(
        self,
        seed: int,
        outputs: Sequence[bytes],
        seconds: Sequence[float] = (),
        overhead: float = 0.0,
        stage: str = FULL,
    ) -> Scored:
        """Score unparsed outputs, one for each instance; `seconds` are those of their calls, less `overhead`. Raises
        InfrastructureFault if the scorer died or hung, EvaluatorFailed if the evaluator failed by itself."""
        request = {"op": "score", "seed": seed, "stage": stage, "lengths": [len(output) for output in outputs]}
        timing = {"seconds": list(seconds), "overhead": overhead}
        reply = await self._ask({**request, **timing}, b"".join(outputs))
        if "fault" in reply:
            raise EvaluatorFailed(str(reply["fault"]))
        if "invalid" in reply:
            return Scored(None, {}, str(reply["invalid"]), str(reply["raised"]))
        return Scored(reply["score"], reply["metrics"])

    async def _ask(self, request: Mapping[str, Any], data: bytes) -> dict[str, Any]:
        async with self._lock:
            if self._process is None:
                await self._start()
            answered = False
            try:
                with anyio.fail_after(self._timeout_s):
                    assert self._process is not None and self._process.stdin is not None
                    await self._process.stdin.send(json.dumps(request).encode() + b"\n" + data)
                    reply = await self._receive()
                    answered = True
                    return reply
            except TimeoutError:
                raise InfrastructureFault("scorer_timeout", f"no answer within {self._timeout_s:g} s") from None
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise InfrastructureFault(
                    "scorer_died", "the process of the task's evaluator ended by itself"
                ) from None
            finally:
                if not answered:
                    await self._stop()

    async def _receive(self) -> dict[str, Any]:
        assert self._replies is not None
        return json.loads(await self._replies.receive_until(b"\n", LONGEST_REPLY))

    async def _start(self) -> None:
        environment = clean_environment(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
        given = (json.dumps(self._settings), json.dumps(self._stages))
        command = python_module("pace_async.evaluate.scorer", str(self._evaluator), *given)
        process = await self._stack.enter_async_context(child(command, log=self._log, environment=environment))
        assert process.stdout is not None
        self._process, self._replies = process, BufferedByteReceiveStream(process.stdout)
        started = False
        try:
            with anyio.fail_after(START_S):
                hello = await self._receive()
            started = "ready" in hello
            self.timed = bool(hello.get("timed"))
        except TimeoutError:
            raise InfrastructureFault("scorer_start", f"not ready within {START_S:g} s") from None
        except (anyio.EndOfStream, anyio.IncompleteRead):
            raise InfrastructureFault("scorer_start", "the process of the task's evaluator ended at once") from None
        finally:
            if not started:
                await self._stop()
        if not started:
            raise UsageError(f"{self._evaluator} cannot be loaded: {hello.get('fault')}.")

    async def _stop(self) -> None:
        """End the child: at once if it is stuck in a request, since nobody will read its answer."""
        with anyio.CancelScope(shield=True):
            process, self._process, self._replies = self._process, None, None
            if process is not None and self._lock.locked() and process.returncode is None:
                process.kill()
            await self._stack.aclose()
            self._stack = AsyncExitStack()
