"""Child processes that can always be ended.

Every child starts in its own session, so its whole process group can be killed. Its standard error goes to a log file.
Its environment holds only what is given. Every wait is bounded.

A child that has stopped answering is distinguished from a slow one and from a pause of this process. Its silence is
counted in consecutive looks, each with its own deadline, and never by elapsed time alone. After this process was
stopped or its machine slept, one look may fail, and the next is answered.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

from pace_async.errors import InfrastructureFault

LOOKS = 4
"""Looks in a row without an answer after which a process counts as hung."""
entered: list[Path] = []
"""Lists of members of the control groups into which every child is entered: not those that limit this process alone."""
REAPED_S = 5.0
"""How long the status of a process may take to be known after its output has ended."""
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
KEPT = (
    "PATH",
    "PYTHONPATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "HF_HOME",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    # Compilers, caches and communication of torch, Triton and vLLM on a card.
    "CUDA_HOME",
    "CC",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "VLLM_CACHE_ROOT",
    "XDG_CACHE_HOME",
)
KEPT_FAMILIES = ("NCCL_",)
"""Of these every variable is kept."""


PARENT = "PACE_PARENT"
"""The process that started a child, as it is told."""


def clean_environment(**extra: str) -> dict[str, str]:
    """The few variables that a child of ours needs (never a key), and `extra`."""
    variables = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_FAMILIES)}
    return {**variables, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", **extra}


def python_module(module: str, *arguments: str) -> list[str]:
    """Command line that runs a module of this package in a child interpreter. Files in the working folder cannot
    replace a package there (-P), as they cannot here."""
    return [sys.executable, "-P", "-m", module, *arguments]


def answer_of(module: str, argument: str, seconds: float) -> Any:
    """What a module of this package, run with `argument` in a child, prints as JSON. Raises ValueError with the last
    line of its error, without a full stop, and if it takes over `seconds`."""
    command = python_module(module, argument)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, env=clean_environment(), check=False
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"no answer in {seconds:g} s") from None
    if done.returncode != 0:
        message = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no message")
        raise ValueError(message.strip().rstrip("."))
    return json.loads(done.stdout)


class KilledOutside(InfrastructureFault):
    """A child was ended by a signal of another process, so another start may succeed. The memory killer of the system
    sends such a signal too."""


async def killed_by(process: Process) -> str:
    """The name of the signal of another process that ended a child, empty if it runs or has ended by itself."""
    status: int | None = None
    with anyio.move_on_after(REAPED_S):
        status = await process.wait()
    return signal.Signals(-status).name if status is not None and -status in _FROM_OUTSIDE else ""


def kill_group(pid: int) -> None:
    """Send SIGKILL to a child's whole process group. Does nothing if it has ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def leave_own_limits(pid: int) -> None:
    """Enter a child into the groups in `entered`, out of a limit that holds for this process alone."""
    for members in entered:
        with contextlib.suppress(OSError):  # it has ended
            members.write_text(str(pid))


@asynccontextmanager
async def child(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    patience_s: float = 5.0,
    keeps: Sequence[int] = (),
) -> AsyncGenerator[Process]:
    """A child with pipes for stdin and stdout and a log for stderr. It inherits the descriptors `keeps`. On leaving,
    its stdin is closed. It has `patience_s` seconds to end by itself, then its process group is killed. Dies with this
    process (Linux)."""
    log.parent.mkdir(parents=True, exist_ok=True)
    process: Process | None = None
    with log.open("ab") as stderr, anyio.CancelScope(shield=True):  # half started, it could not be waited for
        process = await anyio.open_process(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**environment, PARENT: str(os.getpid())},
            start_new_session=True,
            pass_fds=tuple(keeps),
        )
        leave_own_limits(process.pid)
    assert process is not None
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            if process.stdin is not None:
                await process.stdin.aclose()
            with anyio.move_on_after(patience_s):
                await process.wait()
            kill_group(process.pid)
            with anyio.move_on_after(patience_s):
                await process.wait()
            if process.stdout is not None:
                await process.stdout.aclose()


def die_with_parent() -> None:
    """A child calls this first. The kernel then kills it when the process that started it dies (Linux). It ends at once
    if that process has died before the call. The parent may be process 1."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)
        parent = os.environ.pop(PARENT, None)  # not for children of its own
        if parent is not None and os.getppid() != int(parent):
            os._exit(1)


async def wait_silent(look: Callable[[], Awaitable[bool]], hung_s: float) -> None:
    """Return when LOOKS consecutive looks failed. Each begins `hung_s` / LOOKS after the one before, and that is also
    how long an answer may take."""
    misses = 0
    while misses < LOOKS:
        period = anyio.current_time() + hung_s / LOOKS
        well = False
        with anyio.CancelScope(deadline=period):
            well = await look()
        misses = 0 if well else misses + 1
        await anyio.sleep_until(period)
