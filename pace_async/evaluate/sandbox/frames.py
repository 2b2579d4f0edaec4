"""A strict reader of the driver's frames. Pure.

Invariant: only the frames that are due, in their order and with the right nonce, count as answers. A result that comes
before its instance was given is a forgery. Payloads are not parsed here. They are a candidate's, and the scorer parses
them.
"""

from dataclasses import dataclass, field

from pace_async.evaluate.sandbox.inside.frame import ECHO, KINDS, LOADED, LONGEST_HEADER, READY, RESULT

MARK = b"pace "


@dataclass(slots=True)
class Answers:
    """The answers for `instances` instances, after `echoes` echoes. `given` is how many instances the driver has been
    given, and is set by the caller; `failure` is the kind of the frame that ended it early, with `reason` as
    its payload; `forged` says what came that should not have."""

    nonce: str
    instances: int
    echoes: int = 0
    given: int = 0
    ready: bool = False
    echoed: int = 0
    loaded: bool = False
    outputs: list[bytes] = field(default_factory=list[bytes])
    failure: str | None = None
    reason: bytes = b""
    forged: str | None = None
    _read: int = 0

    @property
    def complete(self) -> bool:
        """Whether every instance has its answer, and nothing came that should not have."""
        return not self.over and len(self.outputs) == self.instances

    @property
    def over(self) -> bool:
        """Whether nothing more is due, whatever is still given."""
        return self.failure is not None or self.forged is not None

    def read_on(self, data: bytes | bytearray) -> None:
        """Take the whole frames out of everything that the pipe has carried so far. A frame cut short waits for the
        rest of it: it is no answer, and no forgery either."""
        while self._read < len(data) and self.forged is None:
            end = data.find(b"\n", self._read, self._read + LONGEST_HEADER)
            if end < 0:
                begun = len(data) - self._read < LONGEST_HEADER
                if not begun or not MARK.startswith(data[self._read : self._read + len(MARK)]):
                    self.forged = "bytes that are no frame"
                return
            self.forged, kind, length = _read_header(bytes(data[self._read : end]), self.nonce)
            if self.forged is not None or len(data) < end + 1 + length:
                return
            if not self._due(kind):
                self.forged = "more than one answer" if self.outputs or self.failure else "a frame before its time"
                return
            self._take(kind, bytes(data[end + 1 : end + 1 + length]))
            self._read = end + 1 + length

    def _due(self, kind: str) -> bool:
        if self.failure is not None:
            return False
        match kind:
            case "ready":
                return not self.ready and self.echoed == self.echoes
            case "echo":
                return not self.ready and self.echoed < self.echoes
            case "loaded":
                return self.ready and not self.loaded
            case "result":
                return self.loaded and len(self.outputs) < self.given
            case _:
                return self.ready

    def _take(self, kind: str, payload: bytes) -> None:
        if kind == READY:
            self.ready = True
        elif kind == ECHO:
            self.echoed += 1
        elif kind == LOADED:
            self.loaded = True
        elif kind == RESULT:
            self.outputs.append(payload)
        else:
            self.failure, self.reason = kind, payload


def _read_header(header: bytes, nonce: str) -> tuple[str | None, str, int]:
    parts = header.split(b" ")
    if len(parts) != 4 or parts[0] != b"pace" or not parts[3].isdigit() or len(parts[3]) > 12:
        return "bytes that are no frame", "", 0
    kind = parts[2].decode("ascii", "replace")
    if parts[1] != nonce.encode():
        return "a frame with the wrong nonce", "", 0
    if kind not in KINDS:
        return "a frame of an unknown kind", "", 0
    return None, kind, int(parts[3])
