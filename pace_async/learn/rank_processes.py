"""The learner's processes, one a rank, as the runtime sees them: started, asked and ended together.

Invariant: each rank gets every request, and each has to answer it. Rank 0's answer counts. If one of them dies, stays
silent or is late, all of them are killed, because the others may wait for it without an end. Imports no torch.
"""

import json
import socket
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from pace_async.children import LOOKS, KilledOutside, child, kill_group, killed_by
from pace_async.errors import InfrastructureFault, PaceBug
from pace_async.learn import ranks

_LOOPBACK = "127.0.0.1"
_LONGEST_LINE = 1 << 20
_BROKEN = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError)


@dataclass(frozen=True, slots=True)
class RankProcess:
    """One rank's process. `log_start` is where its part of the log begins."""

    process: Process
    lines: BufferedByteReceiveStream
    log: Path
    log_start: int

    def last_words(self) -> str:
        try:
            with self.log.open("rb") as stream:
                stream.seek(self.log_start)
                lines = stream.read().decode(errors="replace").split("\n")
        except OSError:
            lines = []
        message = next((line.strip() for line in reversed(lines) if line.strip()), "it left no message")
        return f"{message[:300]} (see {self.log})"


@dataclass(slots=True)
class _Patience:
    """Seconds that an answer may take, until when that is, and the seconds from each sign of progress."""

    deadline_s: float
    until: float
    renewed_s: float

    def renew(self) -> None:
        self.deadline_s, self.until = self.renewed_s, anyio.current_time() + self.renewed_s


class RankProcesses:
    """`cards` are the ranks' cards, as CUDA_VISIBLE_DEVICES names them. None: the one that the environment names. The
    first rank writes to `log`, and the others to files beside it. `hung_s` are the seconds after which a silent rank
    counts as hung."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        cards: Sequence[str | None],
        log: Path,
        hung_s: float,
    ) -> None:
        self.command, self._environment, self._cards = command, environment, cards
        self._log, self._hung_s = log, hung_s
        self._stack = AsyncExitStack()
        self._requests = 0
        self.running: tuple[RankProcess, ...] = ()
        self.spawned = anyio.Event()

    @property
    def alive(self) -> bool:
        return bool(self.running) and self.dead is None

    @property
    def dead(self) -> RankProcess | None:
        return next((rank for rank in self.running if rank.process.returncode is not None), None)

    async def spawn(self) -> None:
        """Start every rank, without waiting for any."""
        count = len(self._cards)
        with socket.socket() as listener:
            listener.bind((_LOOPBACK, 0))  # rank 0 inherits it, so no other process can take the port in between
            started: list[RankProcess] = []
            for number, card in enumerate(self._cards):
                keeps = (listener.fileno(),) if count > 1 and number == 0 else ()
                environment = {**self._environment, **_meeting(number, count, listener), **_card(card)}
                log = self._log if number == 0 else self._log.with_stem(f"{self._log.stem}.rank{number}")
                log_start = log.stat().st_size if log.is_file() else 0
                process = await self._stack.enter_async_context(
                    child(self.command, log=log, environment=environment, keeps=keeps)
                )
                assert process.stdout is not None
                started.append(RankProcess(process, BufferedByteReceiveStream(process.stdout), log, log_start))
                self.running = tuple(started)
        self.spawned.set()

    async def ask(self, request: Mapping[str, Any], deadline_s: float, renewed_s: float = 0.0) -> dict[str, Any]:
        """Send a request to every rank and wait at most `deadline_s` for their answers. Returns rank 0's. Each version
        that it reaches meanwhile sets the deadline to `renewed_s` from then. If the exchange is interrupted, all ranks
        are killed. Raises InfrastructureFault."""
        self._requests += 1
        line = (json.dumps({"id": self._requests, **request}) + "\n").encode()
        patience = _Patience(deadline_s, anyio.current_time() + deadline_s, renewed_s)
        try:
            return await self._answer_of_first(line, patience)
        except BaseException:
            await self.retire()
            raise

    async def _answer_of_first(self, line: bytes, patience: _Patience) -> dict[str, Any]:
        first, *others = self.running
        if not others:
            return await self._exchange(first, line, patience)
        answers: dict[int, dict[str, Any]] = {}
        faults: list[InfrastructureFault | PaceBug] = []

        async def exchange(number: int, rank: RankProcess) -> None:
            try:
                answers[number] = await self._exchange(rank, line, patience)
            except (InfrastructureFault, PaceBug) as fault:
                faults.append(fault)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for number, rank in enumerate(self.running):
                tasks.start_soon(exchange, number, rank)
        if faults:
            raise faults[0]
        return answers[0]

    async def _exchange(self, rank: RankProcess, line: bytes, patience: _Patience) -> dict[str, Any]:
        """Send a line to one rank and wait for its answer. Raises InfrastructureFault."""
        try:
            with anyio.fail_after(patience.deadline_s):
                assert rank.process.stdin is not None
                await rank.process.stdin.send(line)
            while True:
                answer = cast("dict[str, Any]", json.loads(await self._line(rank.lines, patience)))
                if "reached" in answer:
                    patience.renew()
                elif "beat" not in answer:
                    break
        except TimeoutError:
            raise InfrastructureFault("learner_timeout", f"no answer within {patience.deadline_s:g} s") from None
        except _BROKEN:
            if ended_by := await killed_by(rank.process):
                raise KilledOutside("learner_died", f"it was ended by {ended_by} (see {rank.log})") from None
            raise InfrastructureFault("learner_died", rank.last_words()) from None
        if answer["id"] != self._requests:
            raise PaceBug(f"the learner answered request {answer['id']} instead of {self._requests}")
        if "failed" in answer:
            raise InfrastructureFault(answer["failed"], f"the learner: {answer['detail']}")
        return answer

    async def _line(self, lines: BufferedByteReceiveStream, patience: _Patience) -> bytes:
        """The next line. Raises TimeoutError at the deadline, InfrastructureFault if the rank stays silent. Silence is
        counted in successive short waits, because this process may have been stopped too."""
        for _ in range(LOOKS):
            with anyio.CancelScope(deadline=min(patience.until, anyio.current_time() + self._hung_s / LOOKS)):
                return await lines.receive_until(b"\n", _LONGEST_LINE)
            if anyio.current_time() >= patience.until:
                raise TimeoutError
        raise InfrastructureFault("learner_hung", f"no sign of life for {self._hung_s:g} s, so it was killed")

    async def wait_any(self) -> None:
        """Wait until one of the ranks ends."""

        async def wait(rank: RankProcess) -> None:
            await rank.process.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for rank in self.running:
                tasks.start_soon(wait, rank)

    async def retire(self) -> None:
        """Kill all ranks, if there are any."""
        for rank in self.running:
            kill_group(rank.process.pid)
        self.running = ()
        if self.spawned.is_set():
            self.spawned = anyio.Event()
        with anyio.CancelScope(shield=True):
            await self._stack.aclose()

    async def close(self) -> None:
        """End all ranks, each with some seconds to end by itself."""
        await self._stack.aclose()
        self.running = ()


def _meeting(number: int, count: int, listener: socket.socket) -> dict[str, str]:
    if count == 1:
        return {}
    return {
        **ranks.LOOPBACK,
        ranks.RANK: str(number),
        ranks.SIZE: str(count),
        ranks.ADDRESS: _LOOPBACK,
        ranks.PORT: str(listener.getsockname()[1]),
        **({ranks.LISTENER: str(listener.fileno())} if number == 0 else {}),
    }


def _card(card: str | None) -> dict[str, str]:
    return {} if card is None else {"CUDA_VISIBLE_DEVICES": card}
