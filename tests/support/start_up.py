"""Collections of the test session itself: none while the tests are found, later few, and none of what was loaded.

Each worker imports torch, transformers and all tests, about a million objects that live as long as it does. Visiting
them in every full collection took a tenth of the processor time of all tests, and a third of the time until the first
one began. What a file of tests loads, litellm for one, is frozen at its end: half a million objects more.
"""

import gc

import pytest

from pace_async.gc_freeze import RARELY


class StartUpFrozen:
    """A plugin. It does not collect before it freezes: what is garbage then holds no file and no connection."""

    def __init__(self) -> None:
        gc.disable()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        gc.freeze()
        gc.enable()
        gc.set_threshold(*RARELY)
        frozen = gc.get_freeze_count()
        gc.get_freeze_count = lambda: frozen  # every run in this process asks, and counting takes a fifth of a second

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if nextitem is None or nextitem.path != item.path:
            gc.collect()
            gc.freeze()
