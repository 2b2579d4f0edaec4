"""Freeze start-up objects with `gc.freeze`.

Before its work begins, a process of a run has loaded some 350,000 objects that live as long as it does. Most belong to
the modules of litellm or torch. A full collection visits all of them and stops an event loop for a fifth of a second or
more. A run's allocations ask for one every few hundred candidates. Even the small collections took a twentieth of a
run's processor time and found almost nothing, because reference counts free what a candidate leaves.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager

RARELY = (20_000, 20, 50)
"""Objects made before the youngest are collected, and how many such collections before older ones are."""


@contextmanager
def start_up_frozen(*, collect: bool = True) -> Generator[None]:
    """Inside the block, collections are rare and visit only objects made inside it. A process has one such block at a
    time. Garbage that is there already is collected first. Without `collect` it stays until after the block, which is
    better for a block of seconds: the collection takes up to a tenth of one. Where the process has frozen its own
    objects, nothing is frozen, because the end of the block would release those too."""
    if gc.get_freeze_count() > 0:
        with rare_collections():
            yield
        return
    if collect:
        gc.collect()
    gc.freeze()
    try:
        with rare_collections():
            yield
    finally:
        gc.unfreeze()


@contextmanager
def rare_collections() -> Generator[None]:
    """Inside the block, collections are rare. For work that makes many objects and no cycles of them. Blocks may be
    nested, and must end in the order of a stack."""
    usual = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
