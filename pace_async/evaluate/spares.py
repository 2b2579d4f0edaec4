"""Drivers that a warm parent forks ahead, and that wait for their job.

What a launch otherwise waits for is the fork of a large process, mounts, and the kernel's moving of a process into a
control group: twenty milliseconds in which nothing of the candidate is computed, and none of it depends on the
program. So a few drivers are ahead, each in namespaces, mounts and a control group of its own, like those that are
forked when they are needed. Each runs one program and ends with it.
"""

import contextlib
import os
import select
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio

from pace_async.errors import InfrastructureFault
from pace_async.evaluate.cold import GRACE_S
from pace_async.evaluate.stock import Stock
from pace_async.evaluate.wiring import Wiring

SPARES = 2
START_S = 10.0
LONGEST_COMPLAINT = 4096
LONGEST_STATUS = 64


class Parent(Protocol):
    """Who forks. `broken` says why it must not be asked again, or nothing."""

    broken: str

    def ask(self, wiring: Wiring, channel: int) -> bool:
        """For a driver at the other end of it, which says on `channel` that it was forked.

        False if the parent is behind with what it was asked for. Raises OSError.
        """
        ...

    async def listening(self) -> None:
        """Wait until it can be asked for more."""
        ...

    def give_up(self, reason: str) -> None: ...


@dataclass(slots=True)
class Waiting:
    """Wiring whose driver was asked for. `channel` is our end of the socket of that candidate alone."""

    wiring: Wiring
    parent: Parent
    channel: socket.socket

    async def started(self) -> "WarmProcess":
        """Its first process. Raises InfrastructureFault where there is none, and then the parent is given up. Not
        cancelled half-way: a candidate that nobody watches would be left."""
        answer, given = b"no answer", list[int]()
        with anyio.CancelScope(shield=True):
            try:
                with anyio.move_on_after(START_S):
                    await anyio.wait_readable(self.channel)
                    answer, given, _, _ = socket.recv_fds(self.channel, LONGEST_COMPLAINT, 1)
            except OSError as error:
                answer = str(error).encode()
        self.wiring.mine.own(*given)
        if answer != b"started" or len(given) != 1:
            self.parent.give_up(answer.decode("utf-8", "replace") or "it ended")
            raise InfrastructureFault("warm_parent", self.parent.broken)
        return WarmProcess(self.parent, given[0], self.channel)

    def close(self) -> None:
        """A driver that has no job by now ends, because none will come."""
        self.channel.close()
        self.wiring.close()


class Spares:
    """Those of one parent."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._waiting: list[Waiting] = []
        self._stock = Stock()

    async def take(self, memory_mb: int) -> Waiting:
        """One with this limit, forked ahead if there is one; whoever takes it closes it. Raises OSError."""
        for waiting in self._waiting:
            if waiting.wiring.memory_mb == memory_mb:
                self._waiting.remove(waiting)
                return waiting
        while (asked := self._ask(memory_mb)) is None:
            await self._parent.listening()
        return asked

    def refill(self, memory_mb: int) -> None:
        """Have some forked ahead for those who come next. Where that fails, they will be told why."""
        for waiting in [waiting for waiting in self._waiting if waiting.wiring.memory_mb != memory_mb]:
            self._waiting.remove(waiting)
            waiting.close()
        with contextlib.suppress(OSError):
            while len(self._waiting) < SPARES and not self._parent.broken:
                asked = self._ask(memory_mb)
                if asked is None:
                    return
                self._waiting.append(asked)

    def close(self) -> None:
        """Let go of all that nobody took."""
        while self._waiting:
            self._waiting.pop().close()
        self._stock.close()

    def _ask(self, memory_mb: int) -> Waiting | None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.ExitStack() as stack:
            stack.enter_context(ours)
            ours.setblocking(False)
            wiring = Wiring.open(memory_mb, grouped=True, stock=self._stock)
            stack.callback(wiring.close)
            if not self._parent.ask(wiring, theirs.fileno()):
                return None
            wiring.hand_over()
            stack.pop_all()
        return Waiting(wiring, self._parent, ours)


class WarmProcess:
    """Implements `cold.FirstProcess`: a driver, process 1 of its namespaces. On `channel` its parent, which alone holds
    the other end, tells how it ended."""

    def __init__(self, parent: Parent, process: int, channel: socket.socket) -> None:
        self._parent, self._process, self._channel = parent, process, channel
        self.ended = channel.fileno()
        self.lost: tuple[str, str] | None = None
        self.processor_s = 0.0

    @property
    def pid(self) -> int:
        for line in Path(f"/proc/self/fdinfo/{self._process}").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "Pid":
                return int(value)
        return -1

    async def kill(self) -> int:
        told = self._told()
        if told is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            with anyio.move_on_after(GRACE_S, shield=True):
                await anyio.wait_readable(self.ended)
                told = self._told()
        if told:
            status, used = told.split()
            self.processor_s = float(used)
            return os.waitstatus_to_exitcode(int(status))
        if told is not None or self._is_over():
            self.lost = ("warm_parent", "it ended, and this candidate with it")
            self._parent.give_up("it died" if told is not None else "it tells nothing")
        return -9

    def _told(self) -> bytes | None:
        """None as long as there is no word, nothing if there will be none."""
        try:
            return self._channel.recv(LONGEST_STATUS)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            return b""

    def _is_over(self) -> bool:
        """Whether the process has ended; one that the kernel cannot end yet is not the parent's fault."""
        events = select.poll()
        events.register(self._process, select.POLLIN)
        return bool(events.poll(0))
