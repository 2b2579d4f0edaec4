"""Client of the learner's child process, which may die and is then restarted.

Invariant: the child's memory can be rebuilt from its checkpoints and from `history`, the files of the groups that made
versions 1…L, back to the oldest checkpoint. A new child receives `history` and rebuilds version L from its newest
checkpoint and the groups after it. So the same group may be passed again after any fault, and `history` does not grow
with the run. Holds no weights. Imports no torch.
"""

import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from pace_async.children import LOOKS, child, clean_environment, kill_group, python_module
from pace_async.errors import GaveUp, InfrastructureFault, PaceBug, UsageError
from pace_async.learn.base import GROUP_UNREADABLE, Step
from pace_async.learn.settings import TrainerConfig
from pace_async.transfer import Transfer

BEAT_S = 5.0
"""Seconds between heartbeats of a working child."""
REPLAY_DIFFERS = "replay_differs"
"""Fault kind: repeated training gave other weights than are served. The learner goes on."""
_LONGEST_LINE = 1 << 20
_BREAK_OFF_S = 30.0
"""Seconds that the child has after a transfer's deadline to abort it. A rendezvous inside NCCL cannot be aborted; the
child is then killed."""


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """What the child may take. Deadlines are in seconds. `start_s`: it loads. `step_s`: one step and its writing, also
    when it is replayed. `hung_s`: the next heartbeat, also while it starts. `gpu` is the card, as CUDA_VISIBLE_DEVICES
    names it. None: the first."""

    step_s: float = 600.0
    start_s: float = 300.0
    hung_s: float = 120.0
    gpu: str | None = None


USUAL = ChildLimits()


class ProcessLearner:
    """A `learn.base.Learner`, a `learn.base.LogprobScorer`, and a `publish.base.Sender`. Entering the context starts
    the child without waiting for it. Leaving the context ends it.

    `model` is version 0's directory. Versions and checkpoints go under `out`, the child's output to `log`. `history`
    lists the files of the groups that made versions 1…L of this run, in order. The first ones may be missing."""

    def __init__(
        self,
        model: Path,
        out: Path,
        settings: TrainerConfig,
        history: Sequence[Path] = (),
        *,
        log: Path | None = None,
        limits: ChildLimits = USUAL,
    ) -> None:
        self._after = next((place for place, path in enumerate(history) if path.exists()), 0)
        self._history = deque(_absolute(path) for path in history[self._after :])
        self._log = log if log is not None else out / "learner.log"
        self._command = python_module(
            "pace_async.learn.process",
            *("--model", str(model.resolve()), "--out", str(out.resolve()), "--config", settings.to_json()),
            *("--beat-s", f"{min(BEAT_S, limits.hung_s / (2 * LOOKS)):g}"),
        )
        self._environment = clean_environment(OMP_NUM_THREADS=str(settings.threads))
        if limits.gpu is not None:
            self._environment["CUDA_VISIBLE_DEVICES"] = limits.gpu
        self._limits = limits
        self._spawned = anyio.Event()
        self._turn = anyio.Lock()
        self._stack = AsyncExitStack()
        self._process: Process | None = None
        self._lines: BufferedByteReceiveStream | None = None
        self._weights: Path | None = None
        self._scored: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], tuple[float, ...]] | None = None
        self._requests = 0
        self._log_start = 0
        self._said_replayed = False
        self.tell: Callable[[InfrastructureFault], Awaitable[None]] = _tell_nobody
        """Records what is no failure of a request."""

    async def __aenter__(self) -> Self:
        await self._spawn()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        self._process = None

    @property
    def version(self) -> int:
        """L, as known on this side."""
        return self._after + len(self._history)

    async def ready(self) -> Path:
        """Wait until the child holds version L. Returns the directory of its weights (version 0: the given model).
        Raises InfrastructureFault if the child died or did not answer in time, GaveUp if L cannot be rebuilt."""
        async with self._turn:
            return await self._ready()

    async def train(self, group: Path) -> Step:
        """As `learn.base.Learner.train`. Also raises GaveUp if the version that the group trains cannot be rebuilt,
        UsageError if a call is longer than the settings allow, and PaceBug if the group does not train the current
        version."""
        path = _absolute(group)
        async with self._turn:
            await self._ready()
            answer = await self._ask({"train": str(path)}, self._limits.step_s)
            if "refused" in answer:
                _blame_setting(answer)
                if answer.get("unreadable"):
                    raise InfrastructureFault(GROUP_UNREADABLE, answer["refused"])
                raise PaceBug(f"the learner refused {path.name}: {answer['refused']}")
            weights = Path(answer["weights"]) if answer["weights"] is not None else None
            if answer["version"] == self.version + 1:
                self._history.append(path)
                self._weights = weights
            while self._after + 1 < answer["oldest"]:
                self._history.popleft()
                self._after += 1
            return Step(
                update=answer["update"],
                version=answer["version"],
                digest=answer["digest"],
                weights=weights,
                reason=answer["reason"],
                metrics=answer["metrics"],
                seconds=answer["seconds"],
                oldest_group=self._history[0] if self._history else path,
            )

    async def logprobs(
        self, version: int, prompt_ids: tuple[int, ...], completion_ids: tuple[int, ...]
    ) -> tuple[float, ...] | None:
        """As `learn.base.LogprobScorer.logprobs`. The last result is cached and returned at once, even during a
        step."""
        request = version, prompt_ids, completion_ids
        if self._scored is not None and self._scored[0] == request:
            return self._scored[1]
        async with self._turn:
            if version != self.version:
                return None
            await self._ready()
            answer = await self._ask({"prompt": prompt_ids, "completion": completion_ids}, self._limits.step_s)
            if "refused" in answer:
                raise PaceBug(f"the learner refused to score an answer: {answer['refused']}")
            scores = tuple(float(value) for value in answer["logprobs"])
            self._scored = request, scores
            return scores

    def can_send(self, version: int) -> bool:
        """As `publish.base.Sender.can_send`."""
        idle = self._weights is not None and not self._turn.locked()
        return idle and version == self.version and version > 0  # version 0 is in memory in another type than on disk

    async def send(self, transfer: Transfer) -> None:
        """As `publish.base.Sender.send`. Also raises UsageError if the model cannot be sent from memory."""
        async with self._turn:
            if self._weights is None:
                raise InfrastructureFault("learner_died", "it was gone before it could send")
            answer = await self._ask({"send": asdict(transfer)}, transfer.seconds + _BREAK_OFF_S)
            if "refused" in answer:
                _blame_setting(answer)
                raise InfrastructureFault("transfer_broken", answer["refused"])

    async def wait_lost(self) -> InfrastructureFault:
        """As `WatchedLearner.wait_lost`. If the learner is lost during a request, that request reports it."""
        while True:
            await self._spawned.wait()
            process = self._process
            if process is None:
                continue
            with anyio.move_on_after(self._limits.hung_s / LOOKS):
                await process.wait()
            async with self._turn:
                if self._process is not process:
                    continue
                if process.returncode is not None:
                    await self._retire()
                    return InfrastructureFault("learner_died", self._last_words())
                if self._weights is not None:
                    try:
                        await self._ask({"ping": True}, 2 * self._limits.hung_s)
                    except InfrastructureFault as fault:
                        return fault

    async def _ready(self) -> Path:
        if self._process is None or self._process.returncode is not None:
            await self._retire()
            await self._spawn()
        if self._weights is None:
            request = {"start": [str(path) for path in self._history], "after": self._after}
            answer = await self._ask(request, self._limits.start_s, self._limits.step_s)
            if "refused" in answer:
                _blame_setting(answer)
                raise GaveUp(
                    f"The learner cannot rebuild version {self.version}: {answer['refused']}. Restore the named "
                    "files from a copy and run `pace resume`; without a copy, begin a new run."
                )
            if answer["version"] != self.version:
                raise PaceBug(f"the learner is at version {answer['version']}, not {self.version}")
            if answer.get("replayed") is not None:
                await self._say_replayed(answer["replayed"])
            self._weights = Path(answer["weights"])
        return self._weights

    async def _say_replayed(self, replayed: dict[str, Any]) -> None:
        """Say once that repeated training gave other weights than are served."""
        if not self._said_replayed:
            self._said_replayed = True
            await self.tell(InfrastructureFault(REPLAY_DIFFERS, replay_in_words(self.version, replayed)))

    async def _spawn(self) -> None:
        self._log_start = self._log.stat().st_size if self._log.is_file() else 0
        self._process = await self._stack.enter_async_context(
            child(self._command, log=self._log, environment=self._environment)
        )
        assert self._process.stdout is not None
        self._lines = BufferedByteReceiveStream(self._process.stdout)
        self._weights = None
        self._spawned.set()

    async def _ask(self, request: dict[str, Any], deadline_s: float, renewed_s: float = 0.0) -> dict[str, Any]:
        """Send a request and wait at most `deadline_s` for its answer. Each version that the child reaches meanwhile
        sets the deadline to `renewed_s` from then. If the exchange is interrupted, the child is killed."""
        assert self._process is not None and self._process.stdin is not None and self._lines is not None
        self._requests += 1
        line = json.dumps({"id": self._requests, **request}) + "\n"
        try:
            with anyio.fail_after(deadline_s):
                await self._process.stdin.send(line.encode())
            until = anyio.current_time() + deadline_s
            while True:
                answer = cast("dict[str, Any]", json.loads(await self._line(self._lines, until)))
                if "reached" in answer:
                    deadline_s, until = renewed_s, anyio.current_time() + renewed_s
                elif "beat" not in answer:
                    break
            if answer["id"] != self._requests:
                raise PaceBug(f"the learner answered request {answer['id']} instead of {self._requests}")
            if "failed" in answer:
                raise InfrastructureFault(answer["failed"], f"the learner: {answer['detail']}")
            return answer
        except TimeoutError:
            await self._retire()
            raise InfrastructureFault("learner_timeout", f"no answer within {deadline_s:g} s") from None
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._retire()
            raise InfrastructureFault("learner_died", self._last_words()) from None
        except BaseException:
            await self._retire()
            raise

    async def _line(self, lines: BufferedByteReceiveStream, until: float) -> bytes:
        """The next line. Raises TimeoutError at `until`, InfrastructureFault if the child stays silent. Silence is
        counted in successive short waits, because this process may have been stopped too."""
        for _ in range(LOOKS):
            with anyio.CancelScope(deadline=min(until, anyio.current_time() + self._limits.hung_s / LOOKS)):
                return await lines.receive_until(b"\n", _LONGEST_LINE)
            if anyio.current_time() >= until:
                raise TimeoutError
        raise InfrastructureFault("learner_hung", f"no sign of life for {self._limits.hung_s:g} s, so it was killed")

    async def _retire(self) -> None:
        """Kill the child, if there is one."""
        if self._process is not None:
            kill_group(self._process.pid)
        self._process, self._weights = None, None
        if self._spawned.is_set():
            self._spawned = anyio.Event()
        with anyio.CancelScope(shield=True):
            await self._stack.aclose()

    def _last_words(self) -> str:
        try:
            with self._log.open("rb") as stream:
                stream.seek(self._log_start)
                lines = stream.read().decode(errors="replace").split("\n")
        except OSError:
            lines = []
        message = next((line.strip() for line in reversed(lines) if line.strip()), "it left no message")
        return f"{message[:300]} (see {self._log})"


async def _tell_nobody(fault: InfrastructureFault) -> None:
    """Default where nothing is recorded."""


def replay_in_words(version: int, replayed: Mapping[str, Any]) -> str:
    """What a replay that was not exact means. `replayed` has the fields of `replayed.Replayed`."""
    steps = f"{replayed['steps']} steps were repeated to rebuild version {version}"
    if replayed["differed"] is None:
        return (
            f"{steps} on a device that does not repeat sums exactly, and the files of that version are gone: the "
            "learner goes on from the repeated weights"
        )
    return (
        f"{steps}, and {replayed['differed']:,} of {replayed['weights']:,} weights were not those that are served: the "
        "learner goes on from the served ones, with the repeated optimizer"
    )


def _blame_setting(answer: dict[str, Any]) -> None:
    if answer["setting"]:
        raise UsageError(f"{answer['refused']}.")


def _absolute(path: Path) -> Path:
    return path.resolve()
