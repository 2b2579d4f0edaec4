"""Candidates that are forked by a warm parent (`inside.warm`), which has imported the task's modules already.

Invariants: a candidate's program, job and outputs never pass through the parent, only the descriptors of their pipes. A
parent that failed once, in any way, gets no further request. `broken` gives the reason, and every later candidate is
started cold.
"""

import ast
import contextlib
import os
import select
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import anyio

from pace_async.children import kill_group
from pace_async.errors import InfrastructureFault
from pace_async.evaluate.sandbox.cold import GRACE_S, FirstProcess
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.evaluate.sandbox.wiring import ControlGroupPool, Descriptors, Wiring
from pace_async.programs.parsed import statements_of

READY_S = 60.0
START_S = 10.0
DRIVERS_AHEAD = 2
LONGEST_COMPLAINT = 4096
LONGEST_STATUS = 64


class WarmParent:
    """The warm parent of an evaluator, made by `start_warm_parent`. Await `ready` before use. `broken` is the reason
    why it must not be used again, or empty."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, errors: IO[bytes]) -> None:
        self._process, self._control, self._said = process, control, errors
        self.broken = ""
        self.prefork = PreforkPool(self)

    @property
    def pid(self) -> int:
        """The first process of its own sandbox."""
        return self._process.pid

    async def ready(self) -> None:
        """Wait until it has imported its modules. Sets `broken` if it fails."""
        with anyio.move_on_after(READY_S) as waiting:
            await anyio.wait_readable(self._control)
        answer = b"" if waiting.cancelled_caught else self._control.recv(LONGEST_COMPLAINT)
        if answer != b"ready":
            self.give_up(answer.decode("utf-8", "replace") or self._last_words() or "it did not start")

    def ask(self, wiring: Wiring, channel: int) -> bool:
        """Request a driver at the other end of the wiring. The parent reports the fork on `channel`. Returns False if
        the parent has not read its earlier requests yet. Raises OSError."""
        try:
            socket.send_fds(self._control, [b"start"], [*wiring.given, channel])
        except BlockingIOError:
            return False
        return True

    async def listening(self) -> None:
        """Wait until it can take further requests."""
        await anyio.wait_writable(self._control)

    def give_up(self, reason: str) -> None:
        """End it and all candidates that it has forked. The first reason is kept."""
        self.broken = self.broken or reason
        if self._process.returncode is None:
            kill_group(self._process.pid)

    async def close(self) -> None:
        """End it with all its forks, and reap it."""
        kill_group(self._process.pid)
        with Descriptors() as mine, anyio.move_on_after(GRACE_S, shield=True):
            ended = os.pidfd_open(self._process.pid)
            mine.own(ended)
            await anyio.wait_readable(ended)
        self._process.poll()
        self.prefork.close()
        self._control.close()
        self._said.close()

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read(LONGEST_COMPLAINT).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


@dataclass(slots=True)
class Waiting:
    """Wiring for a requested driver. `channel` is our end of a socket that belongs to this candidate alone."""

    wiring: Wiring
    parent: WarmParent
    channel: socket.socket

    async def started(self) -> "WarmProcess":
        """Its first process. Raises InfrastructureFault, and gives the parent up, if there is none. A cancelled task
        waits for it too, because otherwise a candidate would be left without a supervisor."""
        answer, descriptors = b"no answer", list[int]()
        with anyio.CancelScope(shield=True):
            try:
                with anyio.move_on_after(START_S):
                    await anyio.wait_readable(self.channel)
                    answer, descriptors, _, _ = socket.recv_fds(self.channel, LONGEST_COMPLAINT, 1)
            except OSError as error:
                answer = str(error).encode()
        self.wiring.mine.own(*descriptors)
        if answer != b"started" or len(descriptors) != 1:
            self.parent.give_up(answer.decode("utf-8", "replace") or "it ended")
            raise InfrastructureFault("warm_parent", self.parent.broken)
        return WarmProcess(self.parent.give_up, descriptors[0], self.channel)

    def close(self) -> None:
        """Close its pipes. A driver without a job ends then."""
        self.channel.close()
        self.wiring.close()


class PreforkPool:
    """The drivers that one parent has forked ahead, at most DRIVERS_AHEAD.

    A launch otherwise waits for the fork of a large process, its mounts, and its move into a control group. This takes
    about twenty milliseconds and does not depend on the program. Each driver waits in its own namespaces, mounts and
    control group, runs one program and ends with it."""

    def __init__(self, parent: WarmParent) -> None:
        self._parent = parent
        self._waiting: list[Waiting] = []
        self._groups = ControlGroupPool()

    async def take(self, memory_mb: int) -> Waiting:
        """A driver with this limit, forked ahead if there is one. The caller closes it. Raises OSError."""
        for waiting in self._waiting:
            if waiting.wiring.memory_mb == memory_mb:
                self._waiting.remove(waiting)
                return waiting
        while (driver := self._ask(memory_mb)) is None:
            await self._parent.listening()
        return driver

    def refill(self, memory_mb: int) -> None:
        """Have drivers forked ahead for the launches that follow. A failure is not reported here: the next `take` meets
        it again."""
        for waiting in [waiting for waiting in self._waiting if waiting.wiring.memory_mb != memory_mb]:
            self._waiting.remove(waiting)
            waiting.close()
        with contextlib.suppress(OSError):
            while len(self._waiting) < DRIVERS_AHEAD and not self._parent.broken:
                driver = self._ask(memory_mb)
                if driver is None:
                    return
                self._waiting.append(driver)

    def close(self) -> None:
        """Close the drivers that were not taken."""
        while self._waiting:
            self._waiting.pop().close()
        self._groups.close()

    def _ask(self, memory_mb: int) -> Waiting | None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.ExitStack() as stack:
            stack.enter_context(ours)
            ours.setblocking(False)
            wiring = Wiring.open(memory_mb, grouped=True, pool=self._groups)
            stack.callback(wiring.close)
            if not self._parent.ask(wiring, theirs.fileno()):
                return None
            wiring.hand_over()
            stack.pop_all()
        return Waiting(wiring, self._parent, ours)


class WarmProcess(FirstProcess):
    """A driver, process 1 of its namespaces. On `channel` its parent, which alone holds the other end, reports how it
    ended. `give_up` is called with the reason if the parent does not."""

    def __init__(self, give_up: Callable[[str], None], process: int, channel: socket.socket) -> None:
        self._give_up, self._process, self._channel = give_up, process, channel
        self.ended = channel.fileno()

    @property
    def pid(self) -> int:
        for line in Path(f"/proc/self/fdinfo/{self._process}").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "Pid":
                return int(value)
        return -1

    async def kill(self) -> int:
        report = self._next_report()
        if report is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            with anyio.move_on_after(GRACE_S, shield=True):
                await anyio.wait_readable(self.ended)
                report = self._next_report()
        if report:
            status, used = report.split()
            self.processor_s = float(used)
            return os.waitstatus_to_exitcode(int(status))
        if report is not None or self._is_over():
            self.lost = ("warm_parent", "it ended, and this candidate with it")
            self._give_up("it died" if report is not None else "it reports nothing")
        return -9

    def _next_report(self) -> bytes | None:
        """None while the parent has sent nothing, empty if it has closed the channel."""
        try:
            return self._channel.recv(LONGEST_STATUS)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            return b""

    def _is_over(self) -> bool:
        """Whether the process has ended. The parent is not to blame for one that the kernel cannot end yet."""
        events = select.poll()
        events.register(self._process, select.POLLIN)
        return bool(events.poll(0))


def start_warm_parent(tier: Tier, hidden: Sequence[Path], imports: Sequence[str]) -> WarmParent | None:
    """A parent that begins to import these modules, None in a tier where forks would be less confined. It is started
    from this thread, because it dies with the thread that started it. Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile())
        stack.enter_context(ours)
        with theirs:
            plan = tier.warm(hidden, imports, theirs.fileno())
            if plan is None:
                return None
            process = subprocess.Popen(
                plan.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(theirs.fileno(),),
                env=plan.environment,
                start_new_session=True,
            )
        ours.setblocking(False)
        stack.pop_all()
    return WarmParent(process, ours, errors)


def imports_of(program: str) -> tuple[str, ...]:
    """The modules that a task's seed program imports at its top level, in order. None if it is not Python."""
    names: list[str] = []
    for step in statements_of(program):
        if isinstance(step, ast.Import):
            names += [alias.name for alias in step.names]
        elif isinstance(step, ast.ImportFrom) and step.level == 0 and step.module is not None:
            names.append(step.module)
    return tuple(dict.fromkeys(names))
