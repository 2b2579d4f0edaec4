"""The runtime's client of the scorer processes: sends a request with a deadline, and restarts a scorer that died.

Invariant: a reply always belongs to the request that waits for it. A scorer that missed a deadline, exceeded a bound or
broke off is killed and never read from again. A started scorer is used only after a check that the task is unchanged.
`Scorers` are a few processes, so that a slow output does not block all others.
"""

import json
import signal
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.to_thread
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from pace_async.children import child, clean_environment, python_module
from pace_async.errors import InfrastructureFault, NotHere, UsageError
from pace_async.evaluate.base import without_secret
from pace_async.evaluate.sandbox import cgroup
from pace_async.evaluate.scorer.strict_json import MOST_VALUES
from pace_async.task import FULL, PRACTICE, Setting

START_S = 60.0
EXIT_S = 5.0
PATIENCE_S = 1.0
LONGEST_REPLY = 256 << 20
CHUNK = 1 << 20
LEAST_MB = 1024
MOST_TASKS = 1024
PRACTICE_SEEDS = 1 << 64
"""What is added to the seed in practice. Seeds that a user sets are below it, and the secret ones are far above."""
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one request: seconds of processor time, and as many by the clock. MiB of memory, of the process and its
    child processes. Values in the outputs of a candidate."""

    memory_mb: int
    seconds: float = 60.0
    values: int = MOST_VALUES

    @classmethod
    def of(cls, memory_mb: int | None, scorers: int, values: int) -> Self:
        """The bounds. By default the memory is half of the machine's, shared by the scorers, and at least LEAST_MB."""
        return cls(memory_mb or max(LEAST_MB, cgroup.memory_mb() // (2 * scorers)), values=values)


@dataclass(frozen=True, slots=True)
class ScorerResult:
    """`score` is None if the outputs, or the score, were not allowed. Then `invalid` gives the reason, and `raised` the
    place of an error in the evaluator itself, if there was one."""

    score: float | None
    metrics: Mapping[str, float]
    invalid: str = ""
    raised: str = ""


@dataclass(frozen=True, slots=True)
class Outputs:
    """A program's outputs for the instances of a seed and a stage: unparsed texts, one for each. `seconds` are those of
    their calls, less `overhead`. The seed may be secret, so no representation of the outputs contains it."""

    seed: int = field(repr=False)
    texts: Sequence[bytes]
    seconds: Sequence[float] = ()
    overhead: float = 0.0
    stage: str = FULL


class EvaluatorFailed(InfrastructureFault):
    """The task's evaluator itself raised an error. `detail` gives its place and message."""

    def __init__(self, detail: str) -> None:
        super().__init__("evaluator_failed", detail)


class OverBound(InfrastructureFault):
    """The scorer exceeded a bound, or crashed, while it worked on one candidate's outputs. It is the candidate's fault
    if that happens again in a fresh scorer, alone. `detail` continues the phrase "scoring its outputs"."""


class Scorer:
    """One child process for one task. It serves one request at a time. Use as an async context manager."""

    def __init__(
        self,
        evaluator: Path,
        log: Path,
        bounds: Bounds | None = None,
        settings: Mapping[str, Setting] | None = None,
        stages: Sequence[str] = (),
        vouch: Callable[[], None] | None = None,
    ) -> None:
        """`bounds` are of one request. Starting is bounded by START_S. `stages` are those of the task's cascade.
        `vouch` is called whenever a process has loaded the evaluator, and raises UsageError if the task has changed.
        `timed`, `practises` and `reports`, known once it has started, say whether the score depends on the calls'
        seconds, whether there are practice instances, and whether the first outputs alone can be scored."""
        self._evaluator, self._log = evaluator, log
        self._bounds = bounds or Bounds.of(None, 1, MOST_VALUES)
        self._settings, self._stages = dict(settings or {}), list(stages)
        self._vouch = vouch
        self.timed = self.practises = self.reports = False
        self._lock = anyio.Lock()
        self._stack = AsyncExitStack()
        self._process: Process | None = None
        self._group: cgroup.Group | None = None
        self._replies: BufferedByteReceiveStream | None = None
        self._instances: dict[tuple[int, str], list[str]] = {}

    async def __aenter__(self) -> Self:
        async with self._lock:
            await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def instances(self, seed: int, stage: str = FULL) -> list[str]:
        """JSON text of each instance. Raises UsageError if the evaluator cannot make them, NotHere with its own
        message if it misses a file."""
        if (seed, stage) not in self._instances:
            reply = _without_seed(await self._ask({"op": "instances", **_instance_choice(seed, stage)}, ()), seed)
            if "missing" in reply:
                raise NotHere(f"{reply['missing'].rstrip('.')}.")
            if "fault" in reply:
                raise UsageError(f"{self._evaluator}: instances failed: {reply['fault']}.")
            self._instances[seed, stage] = reply["instances"]
        return self._instances[seed, stage]

    async def score(self, outputs: Outputs, *, so_far: bool = False) -> ScorerResult:
        """Score the outputs, or `so_far` those of the first instances. Raises OverBound, EvaluatorFailed if the
        evaluator itself failed, and InfrastructureFault if the scorer died."""
        request = {
            "op": "so_far" if so_far else "score",
            **_instance_choice(outputs.seed, outputs.stage),
            "lengths": [len(text) for text in outputs.texts],
            "seconds": list(outputs.seconds),
            "overhead": outputs.overhead,
        }
        reply = _without_seed(await self._ask(request, outputs.texts), outputs.seed)
        if "memory" in reply or ("fault" in reply and self._out_of_memory):
            async with self._lock:
                await self._stop()  # its state is unknown
            raise OverBound("scorer_memory", self._over_memory)
        if "fault" in reply:
            raise EvaluatorFailed(str(reply["fault"]))
        if "invalid" in reply:
            return ScorerResult(None, {}, str(reply["invalid"]), str(reply["raised"]))
        return ScorerResult(reply["score"], reply["metrics"])

    @property
    def _out_of_memory(self) -> bool:
        """Whether the kernel killed one of its processes: the evaluator may have started others."""
        return self._group is not None and self._group.out_of_memory()

    @property
    def _over_memory(self) -> str:
        return f"took more than {self._bounds.memory_mb} MiB of memory (evaluation.scorer_memory_mb)"

    async def _ask(self, request: Mapping[str, Any], data: Sequence[bytes]) -> dict[str, Any]:
        async with self._lock:
            if self._process is None:
                await self._start()
            process, seconds, answered = self._process, self._bounds.seconds, False
            assert process is not None and process.stdin is not None
            try:
                with anyio.fail_after(seconds):
                    await process.stdin.send(json.dumps(request).encode() + b"\n")
                    for text in data:
                        for begin in range(0, len(text), CHUNK):
                            await process.stdin.send(text[begin : begin + CHUNK])
                    reply = await self._receive()
                    answered = True
                    return reply
            except TimeoutError:
                raise OverBound("scorer_timeout", f"took more than {seconds:g} s") from None
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise await self._died(process) from None
            except anyio.DelimiterNotFound:
                raise InfrastructureFault("scorer_died", f"a reply of more than {LONGEST_REPLY} bytes") from None
            finally:
                if not answered:
                    await self._stop()

    async def _died(self, process: Process) -> InfrastructureFault:
        """Why the child ended. Its control group tells whether memory ran out. If another process killed it, the fault
        is the machine's."""
        with anyio.move_on_after(EXIT_S):
            await process.wait()
        code = process.returncode
        if self._out_of_memory:
            return OverBound("scorer_memory", self._over_memory)
        if code == -signal.SIGXCPU:
            return OverBound("scorer_timeout", f"took more than {self._bounds.seconds:g} s of processor time")
        if code is not None and -code in CRASHES:
            return OverBound("scorer_crashed", f"crashed the scorer ({signal.Signals(-code).name})")
        how = f" with {signal.Signals(-code).name}" if code is not None and code < 0 else " by itself"
        return InfrastructureFault("scorer_died", f"the process of the task's evaluator ended{how}")

    async def _receive(self) -> dict[str, Any]:
        assert self._replies is not None
        return json.loads(await self._replies.receive_until(b"\n", LONGEST_REPLY))

    async def _start(self) -> None:
        environment = clean_environment(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
        process = await self._stack.enter_async_context(child(self._command(), log=self._log, environment=environment))
        assert process.stdout is not None
        self._process, self._replies = process, BufferedByteReceiveStream(process.stdout)
        started = False
        try:
            with anyio.fail_after(START_S):
                hello = await self._receive()
            if self._vouch is not None and "ready" in hello:
                await anyio.to_thread.run_sync(self._vouch)
            started = "ready" in hello
            self.timed, self.practises, self.reports = (bool(hello.get(it)) for it in ("timed", "practises", "reports"))
        except TimeoutError:
            raise InfrastructureFault("scorer_start", f"not ready within {START_S:g} s") from None
        except (anyio.EndOfStream, anyio.IncompleteRead):
            raise InfrastructureFault("scorer_start", "the process of the task's evaluator ended at once") from None
        finally:
            if not started:
                await self._stop()
        if not started:
            raise UsageError(f"{self._evaluator} cannot be loaded: {hello.get('fault')}{self._advice(hello)}.")

    def _command(self) -> list[str]:
        """Its control group is made first, and removed with it."""
        hierarchy = cgroup.find()
        self._group = hierarchy.create(self._bounds.memory_mb, MOST_TASKS) if hierarchy else None
        if self._group is not None:
            self._stack.callback(cgroup.discard, self._group)
        bounds = {
            "groups": [str(folder / cgroup.MEMBERS) for folder in self._group.folders] if self._group else [],
            "memory_mb": self._bounds.memory_mb,
            "seconds": self._bounds.seconds,
            "values": self._bounds.values,
        }
        arguments = (self._settings, self._stages, bounds)
        return python_module(
            "pace_async.evaluate.scorer.scorer_process", str(self._evaluator), *map(json.dumps, arguments)
        )

    def _advice(self, hello: Mapping[str, Any]) -> str:
        if "memory" not in hello:
            return ""
        return f"; it may use {self._bounds.memory_mb} MiB, which evaluation.scorer_memory_mb changes"

    async def _stop(self) -> None:
        """End the child, at once if it is stuck in a request, because its answer will not be read."""
        with anyio.CancelScope(shield=True):
            process, self._process, self._replies = self._process, None, None
            if process is not None and self._lock.locked() and process.returncode is None:
                process.kill()
            await self._stack.aclose()
            self._stack = AsyncExitStack()
            self._group = None


class Scorers:
    """At most `most` processes, made by `make`: one from the start, the next when a task has waited for PATIENCE_S,
    because each holds the evaluator's instances. Use as an async context manager."""

    def __init__(self, make: Callable[[], Scorer], most: int) -> None:
        self._make, self._most = make, most
        self._idle: list[Scorer] = []
        self._free = anyio.Semaphore(0)
        self._started = 0
        self._instances: dict[tuple[int, str], list[str]] = {}
        self._stack = AsyncExitStack()
        self.timed = self.practises = self.reports = False

    async def __aenter__(self) -> Self:
        first = await self._further()
        self.timed, self.practises, self.reports = first.timed, first.practises, first.reports
        self._give_back(first)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def instances(self, seed: int, stage: str = FULL) -> list[str]:
        """See `Scorer.instances`."""
        if (seed, stage) not in self._instances:
            async with self.one() as scorer:
                self._instances[seed, stage] = await scorer.instances(seed, stage)
        return self._instances[seed, stage]

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[Scorer]:
        """A scorer, for this caller alone until the block ends. Waits until one is idle."""
        scorer = await self._take()
        try:
            yield scorer
        finally:
            self._give_back(scorer)

    def fresh(self) -> Scorer:
        """A further scorer that has scored nothing yet. The caller enters it."""
        return self._make()

    async def _further(self) -> Scorer:
        self._started += 1
        try:
            return await self._stack.enter_async_context(self._make())
        except BaseException:
            self._started -= 1
            raise

    async def _take(self) -> Scorer:
        if self._started < self._most:
            with anyio.move_on_after(PATIENCE_S):
                await self._free.acquire()
                return self._idle.pop()
            if self._started < self._most:
                return await self._further()
        await self._free.acquire()
        return self._idle.pop()

    def _give_back(self, scorer: Scorer) -> None:
        self._idle.append(scorer)
        self._free.release()


def _instance_choice(seed: int, stage: str) -> dict[str, Any]:
    """Which instances a request is about. Practice has a seed that no other evaluation has, and is scored as in the
    last stage."""
    if stage == PRACTICE:
        return {"seed": PRACTICE_SEEDS + seed, "stage": FULL, "practice": True}
    return {"seed": seed, "stage": stage}


def _without_seed(reply: dict[str, Any], seed: int) -> dict[str, Any]:
    """The reply, with a secret seed removed from its texts."""
    return {name: without_secret(value, seed) if isinstance(value, str) else value for name, value in reply.items()}
