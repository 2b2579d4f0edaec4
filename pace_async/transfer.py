"""What both ends of a transfer share.

Over NCCL the learner sends, and every rank of one engine or several receives (`Transfer`). Each such transfer has its
own group, so no group is left over from a side that died. A side without its peers would wait in NCCL without an end,
so each side aborts its group after a deadline. Without a shared file system an engine fetches a version by its digest
(`Offer`). Imports no torch.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

ADDRESS = "127.0.0.1"
"""Where the ends meet: all are on this machine."""

SENDER = 0
RECEIVER = 1
"""The first place of a receiver. Receivers have this one and the following ones."""

CHUNK = 256 << 20
"""Bytes that are sent together, or one tensor if that is larger. Each side keeps two such chunks."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """One version in transfer: name, type (torch's spelling) and shape of each tensor, in the order of sending. The
    ends meet at `port`: the learner and all ranks of all engines, `members` in all. The ranks of one engine have the
    places from `first` on. Each breaks off after `seconds`."""

    port: int
    seconds: float
    names: Sequence[str]
    dtypes: Sequence[str]
    shapes: Sequence[Sequence[int]]
    members: int = RECEIVER + 1
    first: int = RECEIVER


@dataclass(frozen=True, slots=True)
class Offer:
    """One version that can be fetched: its files lie at `url`/`digest`/NAME. `digest` is `weights.version_digest` of
    its tensors. `files` are the names and sizes in bytes. `token` opens a runtime that serves them, and is empty for
    other places. A fetch is given up after `seconds`."""

    url: str
    digest: str
    files: Mapping[str, int]
    token: str
    seconds: float


@contextlib.contextmanager
def broken_off_after(seconds: float, break_off: Callable[[], None]) -> Generator[None]:
    """Call `break_off` in another thread unless the body ends in time. Raises TimeoutError if it was called: whatever
    the body received is then void, even if it raised nothing."""
    late = threading.Event()

    def give_up() -> None:
        late.set()
        break_off()

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if late.is_set():
            raise _too_late(seconds) from error
        raise
    finally:
        timer.cancel()
    if late.is_set():
        raise _too_late(seconds)


def _too_late(seconds: float) -> TimeoutError:
    return TimeoutError(f"the transfer was not over after {seconds:g} s")
