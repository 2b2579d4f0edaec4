"""Runs an agent's command and ends every process that the command started. Runs as a separate program: imports only the
standard library.

    python agent_guard.py FOLDER INPUT COMMAND …    FOLDER is the working folder, INPUT the file of the standard input

It is a child of the runtime and the parent of the command. It waits for the command, or for the end of its own standard
input, which the runtime holds open. Then it kills every process that the command has left, and prints one line of JSON:
`code` (the exit code, or minus a signal), `output` and `errors` (the ends of the two streams), or `failed` (why the
command could not be started). If the runtime ended, it prints nothing.

Invariant: no process outlives it. It is a subreaper, so a process that left its group or lost its parent becomes its
child. If it is killed itself, the kernel kills the command (Linux).
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

MOST_OUTPUT, MOST_ERRORS = 256 * 1024, 16 * 1024
"""Bytes kept of the ends of the two streams."""
PATIENCE_S = 3.0
CONTROL = 0
_DEATH_SIGNAL, _SUBREAPER = 1, 36  # of prctl


def main(folder: str, stdin: str, command: list[str]) -> None:
    """Run the command to its end."""
    _prctl(_SUBREAPER, 1)
    me = os.getpid()
    environment = {name: value for name, value in os.environ.items() if name != "PACE_PARENT"}

    def die_with_guard() -> None:
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != me:
            os._exit(1)

    try:
        with Path(stdin).open("rb") as stream:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=stream,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                preexec_fn=die_with_guard,  # noqa: PLW1509  this program has one thread
            )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        _say({"failed": str(getattr(error, "strerror", None) or error)})
        return
    with process:
        output, errors = _Tail(MOST_OUTPUT), _Tail(MOST_ERRORS)
        assert process.stdout is not None
        assert process.stderr is not None
        tails = {process.stdout.fileno(): output, process.stderr.fileno(): errors}
        try:
            ended = _follow(process, tails)
        finally:
            _end_all(process)
        if ended:
            for descriptor, tail in tails.items():
                tail.drain(descriptor)
            _say({"code": process.returncode, "output": output.text(), "errors": errors.text()})


class _Tail:
    """The last bytes of a stream."""

    def __init__(self, most: int) -> None:
        self._most, self._kept = most, b""

    def read(self, descriptor: int) -> bool:
        """Read once. False at the end of the stream."""
        chunk = os.read(descriptor, 65536)
        self._kept = (self._kept + chunk)[-self._most :]
        return bool(chunk)

    def drain(self, descriptor: int) -> None:
        """Read what is there, without waiting."""
        os.set_blocking(descriptor, False)
        with contextlib.suppress(BlockingIOError):
            while self.read(descriptor):
                pass

    def text(self) -> str:
        """What is kept, as text."""
        return self._kept.decode("utf-8", "replace")


def _follow(process: "subprocess.Popen[bytes]", tails: dict[int, _Tail]) -> bool:
    """Read the streams until the command ends. False if the runtime ended first."""
    ended = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            for descriptor in (CONTROL, ended, *tails):
                selector.register(descriptor, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fd == CONTROL and not os.read(CONTROL, 4096):
                        return False
                    if key.fd in tails and not tails[key.fd].read(key.fd):
                        selector.unregister(key.fd)
                    if key.fd == ended:
                        process.wait()
                        return True
    finally:
        os.close(ended)


def _end_all(process: "subprocess.Popen[bytes]") -> None:
    """Kill the children, then their children, which become children of this process, until none is left."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        process.poll()
        for child in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _children() -> list[int]:
    me, children = str(os.getpid()).encode(), list[int]()
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                if (place / "stat").read_bytes().rpartition(b")")[2].split()[1] == me:
                    children.append(int(place.name))
    return children


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _say(result: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
