"""Pipes to and from a candidate: bounded in what they keep, closed exactly once, never waited on without an end."""

import contextlib
import os
from typing import Self

import anyio

CHUNK = 1 << 16


class Descriptors:
    """Descriptors that are this evaluation's to close, each exactly once: a number closed twice may be another's."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_all()

    def close_all(self) -> None:
        self.close(*self._open)

    def own(self, *descriptors: int) -> None:
        self._open.update(descriptors)

    def pipe(self) -> tuple[int, int]:
        """(read end, write end)."""
        ends = os.pipe()
        self.own(*ends)
        return ends

    def close(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            if descriptor in self._open:
                self._open.remove(descriptor)
                os.close(descriptor)


class Sink:
    """What comes out of one pipe, read until it has carried more than `limit` bytes. `keep` is how many of the last
    bytes stay in `data`; None keeps them all, which is at most the limit and one chunk."""

    def __init__(self, descriptor: int, name: str, limit: int, keep: int | None = None) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor, self.name, self.limit, self.keep = descriptor, name, limit, keep
        self.data, self.seen, self.open = bytearray(), 0, True

    @property
    def full(self) -> bool:
        return self.seen > self.limit

    @property
    def done(self) -> bool:
        """Whether nothing more will be read."""
        return not self.open or self.full

    async def read(self) -> None:
        """Wait for what the pipe has next, at most a chunk."""
        await anyio.wait_readable(self.descriptor)
        with contextlib.suppress(BlockingIOError):
            chunk = os.read(self.descriptor, CHUNK)
            self.open = bool(chunk)
            self.seen += len(chunk)
            self.data += chunk
            if self.keep is not None:
                del self.data[: -self.keep]

    async def read_on(self) -> None:
        """Until the end of the pipe, or until it is full."""
        while not self.done:
            await self.read()


async def write_all(descriptor: int, data: bytes) -> bool:
    """False if the reader has gone, whose exit will say why. The descriptor must not block."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view[:CHUNK]) :]
        except BlockingIOError:
            await anyio.wait_writable(descriptor)
        except BrokenPipeError:
            return False
    return True
