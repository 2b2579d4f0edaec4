"""The frames in which a driver answers on its result pipe.

One frame is a header line `pace NONCE KIND LENGTH` and LENGTH bytes of JSON. A driver sends `ready` before it loads the
program, and then exactly one of the others. The nonce tells a frame from stray writes; it proves nothing, since the
program shares a process with the driver.
"""

READY = "ready"  # confined; the program has not been loaded yet
RESULT = "result"  # a JSON list, one output for each instance
ERROR = "error"  # the program raised; a JSON string says what
MEMORY = "memory"  # the program raised MemoryError
MALFORMED = "malformed"  # what the entry returned is not JSON
KINDS = (READY, RESULT, ERROR, MEMORY, MALFORMED)
LONGEST_HEADER = 128


def frame(nonce: str, kind: str, payload: bytes) -> bytes:
    """The bytes of one frame."""
    return b"pace %s %s %d\n" % (nonce.encode(), kind.encode(), len(payload)) + payload
