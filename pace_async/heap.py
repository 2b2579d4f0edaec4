"""What start-up leaves in memory, kept out of the garbage collector's way.

A process of ours has loaded some 350,000 objects that live as long as it does before its work begins, most of them
modules of litellm or torch. A full collection visits every one of them, which stops an event loop for a fifth of a
second and more, and what a run allocates asks for one every few hundred candidates.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def start_up_frozen() -> Generator[None]:
    """Inside the block, collections visit only what was made inside it. Once at a time in a process."""
    gc.collect()  # garbage that is frozen would stay
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
