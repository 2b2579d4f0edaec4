"""Tokens, log-probabilities and version spans as compact bytes, always little-endian.

    token ids   unsigned, 2 bytes each if all are below 65536, else 4 (length(blob) / number of tokens gives the size)
    logprobs    IEEE float32, 4 bytes each, the engine's own type (a wider float is rounded)
    spans       triples of uint32: version, start, end

Invariant: unpacking what was packed gives equal values. Not compressed, because the values are small.
"""

import struct
from collections.abc import Sequence

from pace_async.events import TokenSpan


def pack_ids(ids: Sequence[int]) -> bytes:
    """Token ids in [0, 2**32)."""
    kind = "H" if max(ids, default=0) < 65536 else "I"
    return struct.pack(f"<{len(ids)}{kind}", *ids)


def unpack_ids(blob: bytes, count: int) -> tuple[int, ...]:
    """`count` token ids. Raises ValueError if the blob holds another number."""
    if len(blob) not in (2 * count, 4 * count):
        raise ValueError(f"{len(blob)} bytes cannot be {count} token ids")
    return struct.unpack(f"<{count}{'H' if len(blob) == 2 * count else 'I'}", blob)


def pack_logprobs(logprobs: Sequence[float]) -> bytes:
    """Log-probabilities in nats."""
    return struct.pack(f"<{len(logprobs)}f", *logprobs)


def unpack_logprobs(blob: bytes) -> tuple[float, ...]:
    """Log-probabilities in nats."""
    return struct.unpack(f"<{len(blob) // 4}f", blob)


def pack_spans(spans: Sequence[TokenSpan]) -> bytes:
    """Version spans in their order."""
    return b"".join(struct.pack("<3I", span.version, span.start, span.end) for span in spans)


def unpack_spans(blob: bytes) -> tuple[TokenSpan, ...]:
    """Version spans in their order."""
    return tuple(TokenSpan(*triple) for triple in struct.iter_unpack("<3I", blob))
