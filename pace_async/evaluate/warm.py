"""The runtime's side of a warm parent (`inside.warm`): start it, ask it for candidates, notice that it is gone.

Invariant: a candidate's program, job and outputs never pass through the parent, only the descriptors that they will
pass through. One failure, of whatever kind, and the parent is not asked again: `broken` says why, and every later
candidate is started cold.
"""

import ast
import os
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import anyio

from pace_async.children import kill_group
from pace_async.evaluate.cold import GRACE_S
from pace_async.evaluate.pipes import Descriptors
from pace_async.evaluate.spares import LONGEST_COMPLAINT, Spares
from pace_async.evaluate.tiers import Tier
from pace_async.evaluate.wiring import Wiring

READY_S = 60.0


class WarmParent:
    """One for each evaluator, made by `start_warm_parent`; to be used once `ready` has been awaited."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, said: IO[bytes]) -> None:
        self._process, self._control, self._said = process, control, said
        self.broken = ""
        self.spares = Spares(self)

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

    def ask(self, wiring: Wiring, channel: int) -> bool:
        """See `spares.Parent`."""
        try:
            socket.send_fds(self._control, [b"start"], [*wiring.given, channel])
        except BlockingIOError:
            return False
        return True

    async def listening(self) -> None:
        """See `spares.Parent`."""
        await anyio.wait_writable(self._control)

    def give_up(self, reason: str) -> None:
        """End it, and every candidate that it has forked; the first reason stays."""
        self.broken = self.broken or reason
        if self._process.returncode is None:
            kill_group(self._process.pid)

    async def close(self) -> None:
        """End it, with all that it has forked, and reap it."""
        kill_group(self._process.pid)
        with Descriptors() as mine, anyio.move_on_after(GRACE_S, shield=True):
            ended = os.pidfd_open(self._process.pid)
            mine.own(ended)
            await anyio.wait_readable(ended)
        self._process.poll()
        self.spares.close()
        self._control.close()
        self._said.close()

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read(LONGEST_COMPLAINT).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


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
