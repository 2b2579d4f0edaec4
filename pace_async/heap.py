"""What start-up leaves in memory, kept out of the garbage collector's way.

A process of ours has loaded some 350,000 objects that live as long as it does before its work begins, most of them
modules of litellm or torch. A full collection visits every one of them, which stops an event loop for a fifth of a
second and more, and what a run allocates asks for one every few hundred candidates. Even the small collections took
a twentieth of a run's own processor time, and find next to nothing: what a candidate leaves is freed by its counts.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager

RARELY = (20_000, 20, 50)
"""Objects made before the youngest are collected, and how many such collections before older ones are."""


@contextmanager
def start_up_frozen() -> Generator[None]:
    """Inside the block, collections visit only what was made inside it, and are rare. Once at a time in a process."""
    gc.collect()  # garbage that is frozen would stay
    gc.freeze()
    usual = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
