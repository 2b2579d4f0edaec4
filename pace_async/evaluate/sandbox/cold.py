"""A candidate's first process after a cold start: bubblewrap or the driver's own Python."""

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import anyio

from pace_async.children import kill_group
from pace_async.evaluate.sandbox.inside import calls, seccomp
from pace_async.evaluate.sandbox.tiers import Plan
from pace_async.evaluate.sandbox.wiring import Descriptors

GRACE_S = 5.0


class FirstProcess(ABC):
    """The first process of a candidate, as `launch` uses it. All other processes of the candidate end with it. `ended`
    is a descriptor that becomes readable when it has ended. After `kill`: `lost` is the fault (kind and detail) that
    ended it, if the candidate cannot be the cause, and `processor_s` the processor seconds that it used, 0 if
    unknown."""

    ended: int
    lost: tuple[str, str] | None = None
    processor_s: float = 0.0

    @property
    @abstractmethod
    def pid(self) -> int:
        """Its process id in this namespace."""

    @abstractmethod
    async def kill(self) -> int:
        """End it and all processes that it started, also when cancelled. Returns the driver's exit code, negative for a
        signal."""


class ColdProcess(FirstProcess):
    """`wrapped` as in the `Plan`."""

    def __init__(self, process: subprocess.Popen[bytes], ended: int, wrapped: bool) -> None:
        self._process, self.ended, self._wrapped = process, ended, wrapped

    @property
    def pid(self) -> int:
        return self._process.pid

    async def kill(self) -> int:
        ended = self._process.poll() is not None
        kill_group(self.pid)
        with anyio.move_on_after(GRACE_S, shield=True):
            await anyio.wait_readable(self.ended)
        code = self._process.poll()
        if code is None:
            return -9
        if self._wrapped and ended and code in (-signal.SIGKILL, -signal.SIGTERM):
            # No candidate can reach it, and its own limits do not apply to it.
            self.lost = ("sandbox_killed", f"another process ended it with {signal.Signals(-code).name}")
        return 128 - code if self._wrapped and 128 < code < 160 else code


def start(
    plan: Plan, scratch: Path | None, descriptors: Sequence[int], mine: Descriptors, *, one_thread: bool
) -> ColdProcess:
    """Start the first process with these descriptors as standard input, output and error, and the others unchanged.
    With `one_thread` a separate filter stops it from starting a thread. It is started from this thread, because it dies
    with the thread that started it. Raises OSError."""
    stdin, stdout, stderr, *others = descriptors
    argv = list(plan.argv)
    with Descriptors() as lent:
        if plan.wrapped and "seccomp" in plan.confinement:
            rules = _filter_of_bubblewrap(one_thread, cards=bool(plan.confinement.get("cards")))
            lent.own(rules)
            argv[1:1] = ["--seccomp", str(rules)]
            others.append(rules)
        process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(*others, *plan.descriptors),
            env=plan.environment,
            cwd=scratch,
            start_new_session=True,
        )
    ended = os.pidfd_open(process.pid)
    mine.own(ended)
    return ColdProcess(process, ended, plan.wrapped)


def _filter_of_bubblewrap(one_thread: bool, *, cards: bool) -> int:
    """A file with the filter, read once. bubblewrap installs it on itself and on the driver, which adds its own filter
    after it has set its limits."""
    owns = ("cards",) if cards else ()
    code = seccomp.filter_program(
        calls.MACHINE, own_namespaces=True, pid=0, one_thread=one_thread, confined=False, owns=owns
    )
    file = os.memfd_create("filter")
    os.write(file, code)
    os.lseek(file, 0, os.SEEK_SET)
    return file
