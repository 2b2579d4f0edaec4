"""What both ends of a transfer share.

Over NCCL the learner sends, and every rank of one engine or several receives (`Transfer`). Each such transfer has its
own group, so no group is left over from a side that died. A side without its peers would wait in NCCL without an end,
so each side aborts its group after a deadline. On one card, or on the processor, an engine opens a buffer of the
learner's (`SharedBuffer`). Without a shared file system an engine fetches a version by its digest (`Offer`). Imports no
torch.
"""

import contextlib
import math
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, Self

ADDRESS = "127.0.0.1"
"""Where the ends meet: all are on this machine."""

SENDER = 0
RECEIVER = 1
"""The first place of a receiver. Receivers have this one and the following ones."""

CHUNK = 256 << 20
"""Bytes that are sent together, or one tensor if that is larger. Each side keeps two such chunks."""

ALIGNED = 256
"""Bytes. Each tensor of a shared buffer begins at a multiple, and the buffer ends at one."""

BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of a number, by torch's name of its type. Other types are not served."""


@dataclass(frozen=True, slots=True)
class Table:
    """The tensors of one version: name, type (torch's spelling) and shape of each, in the order of its files."""

    names: Sequence[str]
    dtypes: Sequence[str]
    shapes: Sequence[Sequence[int]]

    def lengths(self) -> list[int]:
        """Bytes of each tensor."""
        return [BYTES[dtype] * math.prod(shape) for dtype, shape in zip(self.dtypes, self.shapes, strict=True)]


def laid_out(lengths: Sequence[int]) -> tuple[list[int], int]:
    """Where tensors of so many bytes begin in one buffer, and the bytes of the buffer."""
    ends = accumulate((-(-length // ALIGNED) * ALIGNED for length in lengths), initial=0)
    *offsets, size = ends
    return offsets, max(size, ALIGNED)


@dataclass(frozen=True, slots=True)
class HostHandle:
    """Memory on the processor: an anonymous file, open as this descriptor in this process."""

    process: int
    descriptor: int


@dataclass(frozen=True, slots=True)
class CardHandle:
    """Memory of the card with this UUID: what torch's `_share_cuda_` returned, with bytes in hex digits. The buffer has
    `length` bytes and begins at `offset` of an allocation."""

    card: str
    memory: str
    length: int
    offset: int
    counter: str
    counter_offset: int
    event: str
    awaits_event: bool


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """One version in a buffer of the learner's, of `size` bytes, which processes of this machine can open. Tensor i
    begins at byte `offsets[i]`. The other fields are those of `Table`."""

    handle: HostHandle | CardHandle
    size: int
    names: Sequence[str]
    dtypes: Sequence[str]
    shapes: Sequence[Sequence[int]]
    offsets: Sequence[int]

    @property
    def table(self) -> Table:
        return Table(self.names, self.dtypes, self.shapes)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Raises TypeError, KeyError."""
        fields: dict[str, Any] = {**document}
        handle: dict[str, Any] = fields.pop("handle")
        kind = CardHandle if "card" in handle else HostHandle
        return cls(handle=kind(**handle), **fields)


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
