"""The C library, opened once, for calls that no standard module offers."""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)


def look_up(*names: str) -> None:
    """Find these functions now, so that no fork of this process has to."""
    for name in names:
        getattr(libc, name)
