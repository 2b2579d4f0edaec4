"""Objects of the start-up are not collected while a run lasts, and only then.

`test_gc_freeze` runs these tests in a process of their own: the session has frozen what it loaded, and each collection
of all that would take half a second.
"""

import gc
import weakref

from pace_async.gc_freeze import RARELY, start_up_frozen


class Knot:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.self = self


def test_a_collection_visits_only_what_was_made_since() -> None:
    before = len(gc.get_objects())
    with start_up_frozen():
        assert len(gc.get_objects()) < before / 10
        made = weakref.ref(Knot())
        gc.collect()
        assert made() is None
    assert gc.get_freeze_count() == 0
    assert len(gc.get_objects()) > before / 2


def test_collections_are_rare_and_only_inside() -> None:
    usual = gc.get_threshold()
    before = gc.get_stats()[0]["collections"]
    with start_up_frozen():
        kept = [[number] for number in range(RARELY[0] // 2)]
        assert gc.get_stats()[0]["collections"] <= before + 1
        knots = weakref.WeakSet(Knot() for _ in range(2 * RARELY[0]))
        assert len(knots) < 2 * RARELY[0]
    assert gc.get_threshold() == usual
    assert len(kept) == RARELY[0] // 2


def test_garbage_of_the_start_is_not_kept() -> None:
    left = weakref.ref(Knot())
    with start_up_frozen():
        assert left() is None


def test_without_a_collection_garbage_of_the_start_stays_until_the_end() -> None:
    gc.collect()
    left = weakref.ref(Knot())
    with start_up_frozen(collect=False):
        gc.collect()
        assert left() is not None
    gc.collect()
    assert left() is None


def test_frozen_objects_are_collected_again_after_a_failed_run() -> None:
    knot = Knot()
    left = weakref.ref(knot)
    try:
        with start_up_frozen():
            del knot
            gc.collect()
            assert left() is not None
            raise RuntimeError
    except RuntimeError:
        pass
    gc.collect()
    assert left() is None


def test_what_the_process_has_frozen_itself_stays_frozen() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    with start_up_frozen():
        made = weakref.ref(Knot())
        gc.collect()
        assert made() is None
    assert gc.get_freeze_count() > before / 2
    gc.unfreeze()
