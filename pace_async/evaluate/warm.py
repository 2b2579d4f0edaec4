"""The runtime's side of a warm parent (`inside.warm`): start it, ask it for candidates, notice that it is gone.

Invariant: a candidate's program, job and outputs never pass through the parent, only the descriptors that they will
pass through. One failure, of whatever kind, and the parent is not asked again: `broken` says why, and every later
candidate is started cold.
"""

import ast
import contextlib
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import anyio

from pace_async.children import kill_group
from pace_async.errors import InfrastructureFault
from pace_async.evaluate.cold import GRACE_S
from pace_async.evaluate.inside.warm import RESULT as RESULT
from pace_async.evaluate.pipes import Descriptors
from pace_async.evaluate.tiers import Tier

READY_S = 60.0
START_S = 10.0
LONGEST_COMPLAINT = 4096


class WarmParent:
    """One for each evaluator, made by `start_warm_parent`; to be used once `ready` has been awaited."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, said: IO[bytes]) -> None:
        self._process, self._control, self._said = process, control, said
        self.broken = ""

    @property
    def pid(self) -> int:
        """The first process of those in which it is locked in."""
        return self._process.pid

    async def ready(self) -> None:
        """Wait until it has imported what it should; else `broken` is set."""
        with anyio.move_on_after(READY_S) as waiting:
            await anyio.wait_readable(self._control)
        answer = b"" if waiting.cancelled_caught else self._control.recv(LONGEST_COMPLAINT)
        if answer != b"ready":
            self.give_up(answer.decode("utf-8", "replace") or self._last_words() or "it did not start")

    async def start(self, descriptors: Sequence[int], mine: Descriptors) -> "WarmProcess":
        """Fork a candidate that gets these descriptors as 0, 1, 2 and so on. Raises InfrastructureFault, and then is
        `broken`. Not cancelled half-way: a candidate that nobody watches would be left."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        channel = os.dup(ours.fileno())
        mine.own(channel)
        answer, given = b"no answer", list[int]()
        with ours, theirs, anyio.CancelScope(shield=True):
            try:
                with anyio.move_on_after(START_S):
                    await self._ask([*descriptors, theirs.fileno()])
                    theirs.close()
                    await anyio.wait_readable(ours)
                    answer, given, _, _ = socket.recv_fds(ours, LONGEST_COMPLAINT, 1)
            except OSError as error:
                answer = str(error).encode()
        mine.own(*given)
        if answer != b"started" or len(given) != 1:
            self.give_up(answer.decode("utf-8", "replace") or "it ended")
            raise InfrastructureFault("warm_parent", self.broken)
        return WarmProcess(self, given[0], channel)

    def give_up(self, reason: str) -> None:
        """End it, and every candidate that it has forked; the first reason stays."""
        self.broken = self.broken or reason
        if self._process.returncode is None:
            kill_group(self._process.pid)

    def gone(self) -> bool:
        """Whether it has ended, and its candidates with it."""
        if not self.broken:
            with contextlib.suppress(BlockingIOError):
                self._control.recv(1, socket.MSG_PEEK)  # it never speaks once it is ready: this is the end
                self.give_up("it died")
        return self.broken != ""

    async def close(self) -> None:
        """End it and reap it."""
        kill_group(self._process.pid)
        with Descriptors() as mine, anyio.move_on_after(GRACE_S, shield=True):
            ended = os.pidfd_open(self._process.pid)
            mine.own(ended)
            await anyio.wait_readable(ended)
        self._process.poll()
        self._control.close()
        self._said.close()

    async def _ask(self, descriptors: Sequence[int]) -> None:
        while True:
            try:
                socket.send_fds(self._control, [b"start"], descriptors)
                return
            except BlockingIOError:
                await anyio.wait_writable(self._control)

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read(LONGEST_COMPLAINT).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


class WarmProcess:
    """Implements `cold.FirstProcess`: process 1 of a candidate's namespaces, which tells how the driver ended."""

    def __init__(self, parent: WarmParent, ended: int, channel: int) -> None:
        self._parent, self.ended, self._channel = parent, ended, channel
        self.lost = False

    @property
    def pid(self) -> int:
        for line in Path(f"/proc/self/fdinfo/{self.ended}").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "Pid":
                return int(value)
        return -1

    async def kill(self) -> int:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.ended, signal.SIGKILL)
        with anyio.move_on_after(GRACE_S, shield=True):
            await anyio.wait_readable(self.ended)
        try:
            told = os.read(self._channel, 16)
        except BlockingIOError:  # it could not be ended
            told = b""
        if told:
            return os.waitstatus_to_exitcode(int(told))
        self.lost = self._parent.gone()
        return -9


def start_warm_parent(tier: Tier, hidden: Sequence[Path], imports: Sequence[str]) -> WarmParent | None:
    """A parent that is about to import these; None in a tier where forks would be less locked in. From this thread:
    with the thread that started it, it would die. Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ExitStack() as stack:
        said = stack.enter_context(tempfile.TemporaryFile())
        stack.enter_context(ours)
        with theirs:
            plan = tier.warm(hidden, imports, theirs.fileno())
            if plan is None:
                return None
            process = subprocess.Popen(
                plan.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                pass_fds=(theirs.fileno(),),
                env=plan.environment,
                start_new_session=True,
            )
        ours.setblocking(False)
        stack.pop_all()
    return WarmParent(process, ours, said)


def imports_of(program: str) -> tuple[str, ...]:
    """The modules that a task's seed program imports at its top level, in order."""
    names: list[str] = []
    for step in ast.parse(program).body:
        if isinstance(step, ast.Import):
            names += [alias.name for alias in step.names]
        elif isinstance(step, ast.ImportFrom) and step.level == 0 and step.module is not None:
            names.append(step.module)
    return tuple(dict.fromkeys(names))
