"""Writes text to standard output, which may be slow, stopped or closed.

Invariant: only `drain` waits for the reader, for a bounded time. While a terminal is stopped with Ctrl-S, or a pipe is
not read, text is buffered up to a limit. Beyond it new text is dropped and counted. A closed pipe ends the output for
good, without an error. Characters that the encoding lacks are replaced one for one.

A file-like object as far as rich's Console needs one.
"""

import contextlib
import io
import os
import stat
import sys
from collections.abc import Mapping
from typing import IO, TextIO, cast

import anyio

PENDING_BYTES = 256 * 1024
_PAIRS = "….·*–-−-→>≤<≥>─-━=▁.▂.▃:▄:▅+▆+▇#█#▏#▎#▍#▌#▋#▊#▉#▶>★*●o↑^▲a◆i■e"
_PLAIN_FORMS: Mapping[int, str] = {ord(fine): plain for fine, plain in zip(_PAIRS[::2], _PAIRS[1::2], strict=True)}


class Output(io.TextIOBase):
    """Writes to its own non-blocking descriptor (terminals and pipes), or directly to `stream` (files, and streams
    without a descriptor)."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._name = getattr(stream, "encoding", None) or "utf-8"
        self._pending = bytearray()
        self.left_out = 0
        self.gone = False
        self.terminal = _is_terminal(stream)
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
        self._descriptor = _open_without_blocking(stream)

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._name

    @property
    def pending(self) -> int:
        """Bytes in the buffer."""
        return len(self._pending)

    def isatty(self) -> bool:
        return self.terminal

    def size(self) -> tuple[int, int]:
        """(columns, rows), or 80 × 24 if the size is unknown."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            columns, rows = os.get_terminal_size(self._stream.fileno())
            if columns > 0 and rows > 0:
                return columns, rows
        return 80, 24

    def write(self, text: str) -> int:
        """Buffer `text` and write what the reader accepts at once. Never waits. A closed pipe is ignored."""
        if self.gone:
            return len(text)
        if len(self._pending) > PENDING_BYTES:
            self.left_out += text.count("\n")
            return len(text)
        if not self._name.lower().replace("-", "").startswith("utf"):
            text = text.translate(_PLAIN_FORMS)
        self._pending += text.encode(self._name, errors="replace")
        return len(text)

    def flush(self) -> None:
        """Write as much as the reader accepts now."""
        try:
            while self._pending and not self.gone:
                if self._descriptor is None:
                    self._write_straight()
                else:
                    del self._pending[: os.write(self._descriptor, self._pending[:4096])]
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self.gone = True
            self._pending.clear()

    async def drain(self, seconds: float) -> bool:
        """Wait up to `seconds` until everything is written. Returns whether it was."""
        self.flush()
        with anyio.move_on_after(seconds):
            while self._pending and self._descriptor is not None:
                await anyio.wait_writable(self._descriptor)
                self.flush()
        return not self._pending

    def close(self) -> None:
        """Close the descriptor opened here. The stream itself stays open."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None
        self.gone = True
        self._pending.clear()
        super().close()

    def as_file(self) -> IO[str]:
        """The same object under the type that rich asks for."""
        return cast("IO[str]", self)

    def _write_straight(self) -> None:
        self._stream.write(self._pending.decode(self._name, errors="replace"))
        self._pending.clear()
        self._stream.flush()


def _is_terminal(stream: TextIO) -> bool:
    with contextlib.suppress(ValueError, AttributeError):
        return stream.isatty()
    return False


def _open_without_blocking(stream: TextIO) -> int | None:
    """A new open file description, so that O_NONBLOCK is not forced on the shell that shares the old one."""
    try:
        descriptor = stream.fileno()
        kind = os.fstat(descriptor).st_mode
        if os.isatty(descriptor):
            path = os.ttyname(descriptor)
        elif stat.S_ISFIFO(kind) and sys.platform == "linux":
            path = f"/proc/self/fd/{descriptor}"
        else:
            return None
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError, AttributeError):
        return None
