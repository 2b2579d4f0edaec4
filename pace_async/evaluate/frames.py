"""Reading a driver's answer, strictly. Pure.

Invariant: bytes that are not exactly one `ready` frame and at most one answer, each with the right nonce, are never
taken for an answer. The payload is not parsed here: it is a candidate's, and goes to the scorer as it is.
"""

from dataclasses import dataclass

from pace_async.evaluate.inside.frame import KINDS, LONGEST_HEADER, READY

MARK = b"pace "


@dataclass(frozen=True, slots=True)
class Answer:
    """`kind` is None where no whole answer came; `forged` says what is wrong where something else came instead."""

    ready: bool
    kind: str | None = None
    payload: bytes = b""
    forged: str | None = None


def read_answer(data: bytes, nonce: str) -> Answer:
    """What the bytes of a result pipe say. A frame cut short is no answer, and no forgery either."""
    ready, kind, payload, at = False, None, b"", 0
    while at < len(data):
        end = data.find(b"\n", at, at + LONGEST_HEADER)
        if end < 0:
            begun = len(data) - at < LONGEST_HEADER and MARK.startswith(data[at : at + len(MARK)])
            return Answer(ready, kind, payload, None if begun and kind is None else "bytes that are no frame")
        problem, found, length = _read_header(data[at:end], nonce)
        if problem is not None:
            return Answer(ready, kind, payload, problem)
        if (found == READY) == ready or kind is not None:
            return Answer(ready, kind, payload, "more than one answer")
        body = data[end + 1 : end + 1 + length]
        if len(body) < length:
            return Answer(ready)
        at = end + 1 + length
        if found == READY:
            ready = True
        else:
            kind, payload = found, body
    return Answer(ready, kind, payload)


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
