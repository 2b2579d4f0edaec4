"""Keys that a person types while a screen is shown, one at a time and without echo.

Invariant: the terminal has its own modes again after the context ends, while the process is stopped (Ctrl-Z), and
before an exit that runs no clean-up (`restore_all`). Only SIGKILL and `kill -STOP` leave it changed. Ctrl-C, Ctrl-Z and
Ctrl-S act as before. A process in the background reads nothing and changes nothing, so the shell's keys are its own.
"""

import atexit
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, TextIO

import anyio

BACKGROUND_S = 0.5
UP, DOWN, PAGE_UP, PAGE_DOWN, ESCAPE = "up", "down", "page_up", "page_down", "escape"
_SEQUENCES = {b"A": UP, b"B": DOWN, b"5~": PAGE_UP, b"6~": PAGE_DOWN}
_open: "list[Keyboard]" = []


class Keyboard:
    """A context in which the terminal of `descriptor` gives single keys. Only the main thread may enter it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._before: list[Any] | None = None
        self._handlers: dict[signal.Signals, Any] = {}

    @classmethod
    def of(cls, stream: TextIO | None = None) -> "Keyboard | None":
        """That of standard input, or None if it is not a terminal, or modes cannot be set here."""
        with suppress(OSError, ValueError, AttributeError, ImportError):
            import termios

            typed = sys.stdin if stream is None else stream
            if typed.isatty():
                path = os.ttyname(typed.fileno())
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
                with suppress(termios.error):
                    termios.tcgetattr(descriptor)
                    return cls(descriptor)
                os.close(descriptor)
        return None

    def __enter__(self) -> "Keyboard":
        _open.append(self)
        atexit.register(self._restore)
        for number, handler in ((signal.SIGTSTP, self._stopped), (signal.SIGCONT, self._continued)):
            self._handlers[number] = signal.signal(number, handler)
        self._single_keys()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        atexit.unregister(self._restore)
        _open.remove(self)
        os.close(self._descriptor)

    async def keys(self) -> AsyncGenerator[str]:
        """The keys as they are typed: a character, or one of the names of this module. Ends with the terminal."""
        while True:
            await anyio.wait_readable(self._descriptor)
            if not self._in_foreground():
                await anyio.sleep(BACKGROUND_S)  # what is typed now is for the shell
                continue
            with suppress(BlockingIOError):
                typed = os.read(self._descriptor, 64)
                if not typed:
                    return
                for key in keys_in(typed):
                    yield key

    def _single_keys(self) -> None:
        """Also after a stop, when a shell may have set modes of its own."""
        import termios

        with suppress(termios.error, OSError):
            if self._in_foreground():
                modes = termios.tcgetattr(self._descriptor)
                self._before = self._before or modes
                single = [*modes]
                single[3] = modes[3] & ~(termios.ICANON | termios.ECHO)
                termios.tcsetattr(self._descriptor, termios.TCSANOW, single)

    def _restore(self) -> None:
        import termios

        with suppress(termios.error, OSError):
            if self._before is not None and self._in_foreground():  # elsewhere they are the shell's
                termios.tcsetattr(self._descriptor, termios.TCSANOW, self._before)

    def _in_foreground(self) -> bool:
        with suppress(OSError):
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        return False

    def _stopped(self, _number: int, _frame: FrameType | None) -> None:
        self._restore()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _continued(self, _number: int, _frame: FrameType | None) -> None:
        self._single_keys()


def restore_all() -> None:
    """Give each terminal its modes back. For an exit without clean-up."""
    for keyboard in _open:
        keyboard._restore()  # pyright: ignore[reportPrivateUsage]


def keys_in(typed: bytes) -> list[str]:
    """The keys of what was read: characters, and the few sequences that have a name. Others are left out."""
    keys: list[str] = []
    while typed:
        if typed[:2] in (b"\x1b[", b"\x1bO"):
            end = next((at for at in range(2, len(typed)) if 0x40 <= typed[at] <= 0x7E), len(typed) - 1)
            if (name := _SEQUENCES.get(typed[2 : end + 1])) is not None:
                keys.append(name)
            typed = typed[end + 1 :]
        else:
            keys.append(ESCAPE if typed[:1] == b"\x1b" else typed[:1].decode("ascii", errors="replace"))
            typed = typed[1:]
    return keys
