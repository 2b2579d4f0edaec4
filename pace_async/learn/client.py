"""The learner as the runtime sees it: a child process that may die and is started again.

Invariant: whatever the child had in memory follows from its checkpoints and from `history`, the files of the groups
that made versions 1…L, as far back as the oldest checkpoint. A new child is given them, and rebuilds version L from
its newest checkpoint and the groups after it. So after any fault the same group may be given again, and what is
remembered of a run does not grow with it. Holds no weights, imports no torch.
"""

import json
from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from pace_async.children import child, clean_environment, kill_group, python_module
from pace_async.errors import GaveUp, InfrastructureFault, PaceBug, UsageError
from pace_async.learn.base import GROUP_UNREADABLE, Step
from pace_async.learn.settings import Settings
from pace_async.silence import LOOKS
from pace_async.transfer import Transfer

BEAT_S = 5.0
"""Seconds between signs of life of a child that works."""
_LONGEST_LINE = 1 << 20
_BREAK_OFF_S = 30.0
"""What the child has beyond a transfer's own deadline to break it off; a rendezvous within NCCL cannot be, and then the
child is ended."""


class ProcessLearner:
    """A `learn.base.Learner`, a `Scorer`, and a `publish.nccl.Sender`. Entering it starts the child and does not wait
    for it; leaving ends it.

    `model` is version 0's directory; versions and checkpoints go under `out`, the child's words to `log`. `history`
    are the files of the groups that made versions 1…L of this run, in order; the first ones may be gone. Deadlines in
    seconds: `start_s` for the child to load, `step_s` for each step, those replayed too, with the writing after it;
    `hung_s` for a sign of life, while it starts too.
    `gpu` is its card, as CUDA_VISIBLE_DEVICES names it; None: the first."""

    def __init__(
        self,
        model: Path,
        out: Path,
        settings: Settings,
        history: Sequence[Path] = (),
        *,
        log: Path | None = None,
        step_s: float = 600.0,
        start_s: float = 300.0,
        hung_s: float = 120.0,
        gpu: str | None = None,
    ) -> None:
        self._after = next((place for place, path in enumerate(history) if path.exists()), 0)
        self._history = deque(_absolute(path) for path in history[self._after :])
        self._log = log if log is not None else out / "learner.log"
        self._command = python_module(
            "pace_async.learn.process",
            *("--model", str(model.resolve()), "--out", str(out.resolve()), "--config", settings.to_json()),
            *("--beat-s", f"{min(BEAT_S, hung_s / (2 * LOOKS)):g}"),
        )
        self._environment = clean_environment(OMP_NUM_THREADS=str(settings.threads))
        if gpu is not None:
            self._environment["CUDA_VISIBLE_DEVICES"] = gpu
        self._step_s, self._start_s, self._hung_s = step_s, start_s, hung_s
        self._spawned = anyio.Event()
        self._turn = anyio.Lock()
        self._stack = AsyncExitStack()
        self._process: Process | None = None
        self._lines: BufferedByteReceiveStream | None = None
        self._weights: Path | None = None
        self._scored: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], tuple[float, ...]] | None = None
        self._requests = 0
        self._log_start = 0

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
        """L, as far as this side knows."""
        return self._after + len(self._history)

    async def ready(self) -> Path:
        """Wait until the child holds version L, and tell where its weights are (version 0: the model as given). Raises
        InfrastructureFault if the child died or did not answer in time, GaveUp if L cannot be rebuilt."""
        async with self._turn:
            return await self._ready()

    async def train(self, group: Path) -> Step:
        """As `learn.base.Learner.train`. Raises also GaveUp if the version that the group trains cannot be rebuilt,
        UsageError if a call is longer than the settings allow, and PaceBug if the group does not train the present
        version."""
        path = _absolute(group)
        async with self._turn:
            await self._ready()
            answer = await self._ask({"train": str(path)}, self._step_s)
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
        """As `learn.base.Scorer.logprobs`. An answer that was asked about last is known without waiting for a step that
        is on its way."""
        asked = version, prompt_ids, completion_ids
        if self._scored is not None and self._scored[0] == asked:
            return self._scored[1]
        async with self._turn:
            if version != self.version:
                return None
            await self._ready()
            answer = await self._ask({"prompt": prompt_ids, "completion": completion_ids}, self._step_s)
            if "refused" in answer:
                raise PaceBug(f"the learner refused to score an answer: {answer['refused']}")
            found = tuple(float(value) for value in answer["logprobs"])
            self._scored = asked, found
            return found

    def can_send(self, version: int) -> bool:
        """As `publish.nccl.Sender.can_send`."""
        idle = self._weights is not None and not self._turn.locked()
        return idle and version == self.version and version > 0  # version 0 is loaded in another type than its files'

    async def send(self, transfer: Transfer) -> None:
        """As `publish.nccl.Sender.send`. Raises also UsageError if the model cannot be sent from memory."""
        async with self._turn:
            if self._weights is None:
                raise InfrastructureFault("learner_died", "it was gone before it could send")
            answer = await self._ask({"send": asdict(transfer)}, transfer.seconds + _BREAK_OFF_S)
            if "refused" in answer:
                _blame_setting(answer)
                raise InfrastructureFault("transfer_broken", answer["refused"])

    async def wait_lost(self) -> InfrastructureFault:
        """As `runtime.keeper.WatchedLearner.wait_lost`. What is lost in an exchange, that exchange tells."""
        while True:
            await self._spawned.wait()
            process = self._process
            if process is None:
                continue
            with anyio.move_on_after(self._hung_s / LOOKS):
                await process.wait()
            async with self._turn:
                if self._process is not process:
                    continue
                if process.returncode is not None:
                    await self._retire()
                    return InfrastructureFault("learner_died", self._last_words())
                if self._weights is not None:
                    try:
                        await self._ask({"ping": True}, 2 * self._hung_s)
                    except InfrastructureFault as fault:
                        return fault

    async def _ready(self) -> Path:
        if self._process is None or self._process.returncode is not None:
            await self._retire()
            await self._spawn()
        if self._weights is None:
            request = {"start": [str(path) for path in self._history], "after": self._after}
            answer = await self._ask(request, self._start_s, self._step_s)
            if "refused" in answer:
                _blame_setting(answer)
                raise GaveUp(
                    f"The learner cannot rebuild version {self.version}: {answer['refused']}: with a copy of what is "
                    "named put back `pace resume` goes on; without one, begin a new run."
                )
            if answer["version"] != self.version:
                raise PaceBug(f"the learner is at version {answer['version']}, not {self.version}")
            self._weights = Path(answer["weights"])
        return self._weights

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
        """One request and its answer, within `deadline_s`; each version that the child reaches on its way gives it
        `renewed_s` from there. The child does not outlive an exchange that was broken off."""
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
        """The next line. Raises TimeoutError at `until`, and InfrastructureFault where the child stays silent;
        that is counted in waits that follow one another, because this process may have been stopped too."""
        for _ in range(LOOKS):
            with anyio.CancelScope(deadline=min(until, anyio.current_time() + self._hung_s / LOOKS)):
                return await lines.receive_until(b"\n", _LONGEST_LINE)
            if anyio.current_time() >= until:
                raise TimeoutError
        raise InfrastructureFault("learner_hung", f"no sign of life for {self._hung_s:g} s, so it was killed")

    async def _retire(self) -> None:
        """End the child at once, if there is one."""
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
        words = next((line.strip() for line in reversed(lines) if line.strip()), "it left no message")
        return f"{words[:300]} (see {self._log})"


def _blame_setting(answer: dict[str, Any]) -> None:
    if answer["setting"]:
        raise UsageError(f"{answer['refused']}.")


def _absolute(path: Path) -> Path:
    return path.resolve()
