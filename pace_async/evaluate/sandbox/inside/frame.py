"""The frames in which a driver answers on its result pipe.

One frame is a header line `pace NONCE KIND LENGTH` and LENGTH bytes of JSON. The order is: an `echo` for each in the
job, `ready` before the program is loaded, `loaded`, and a `result` for each instance. After `ready`, one of the other
three may come in place of the next frame, and is the last. The nonce distinguishes a frame from stray writes. It proves
nothing, because the program shares a process with the driver.
"""

import os

ECHO = "echo"  # a line of JSON, parsed and written again: the overhead without any program
READY = "ready"  # confined; the program has not been loaded yet
LOADED = "loaded"  # the program's top level has run; instances may come
RESULT = "result"  # the output for the instance given last
ERROR = "error"  # the program raised; a JSON string says what
MEMORY = "memory"  # the program raised MemoryError
MALFORMED = "malformed"  # what the entry returned is not JSON
KINDS = (ECHO, READY, LOADED, RESULT, ERROR, MEMORY, MALFORMED)
LONGEST_HEADER = 128


def frame(nonce: str, kind: str, payload: bytes) -> bytes:
    """The bytes of one frame."""
    return b"pace %s %s %d\n" % (nonce.encode(), kind.encode(), len(payload)) + payload


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it to a pipe."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
