"""Watchers can neither slow nor break a run."""

import logging
from collections.abc import Sequence

import anyio
import pytest

from pace_async.events import Fact
from pace_async.observe.bus import Bus, observing
from pace_async.observe.model import RunView
from tests.doubles.displays import Broken, Recorder, Stuck
from tests.support.observe_facts import fold_all, life
from tests.support.population_facts import HEADER, opened

EMPTY = RunView(HEADER)


async def test_a_watcher_gets_every_event_in_order_with_the_view_just_after_it() -> None:
    facts = list(life(3))
    bus, watcher = Bus(EMPTY), Recorder()
    with anyio.fail_after(10):
        async with observing(bus, [watcher]):
            for fact in facts:
                bus.publish(fact)
    assert watcher.events == facts
    assert watcher.views[9] == fold_all(EMPTY, facts[:10])
    assert bus.view == watcher.views[-1]
    assert watcher.closed == 1


async def test_a_watcher_hears_while_the_run_goes_on() -> None:
    bus, watcher = Bus(EMPTY), Recorder()
    with anyio.fail_after(10):
        async with observing(bus, [watcher]):
            bus.publish(opened(1))
            await watcher.heard.wait()
            assert watcher.closed == 0


@pytest.mark.parametrize("stage", ["take", "refresh", "close"])
async def test_a_watcher_that_raises_is_dropped_with_one_line_and_the_others_go_on(
    stage: str, caplog: pytest.LogCaptureFixture
) -> None:
    bus, broken, well = Bus(EMPTY), Broken(stage), Recorder()
    facts: Sequence[Fact] = list(life(5))
    with anyio.fail_after(10), caplog.at_level(logging.WARNING):
        async with observing(bus, [broken, well]):
            for fact in facts:
                bus.publish(fact)
            await well.heard.wait()
    assert well.events == facts
    assert (broken.closed, well.closed) == (1, 1)
    assert len(caplog.records) == 1
    assert "display broken failed and was dropped, the run goes on" in caplog.text
    assert "\x1b" not in caplog.records[0].getMessage()


async def test_publishing_without_watchers_only_folds() -> None:
    bus = Bus(EMPTY)
    bus.publish(opened(1))
    assert bus.view.leases.admitted == 1


async def test_an_event_that_cannot_be_folded_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    bus = Bus(EMPTY)
    bus.publish("no event at all")  # pyright: ignore[reportArgumentType]
    bus.publish(opened(1))
    assert bus.view.leases.admitted == 1
    assert "could not be folded" in caplog.text


async def test_a_watcher_without_a_first_frame_is_dropped_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pace_async.observe.bus.CAPACITY", 3)
    monkeypatch.setattr("pace_async.observe.bus.CLOSE_S", 0.1)
    bus = Bus(EMPTY)
    with anyio.fail_after(10):
        async with observing(bus, [Stuck(), well := Recorder()]):
            for lease in range(1, 20):
                bus.publish(opened(lease))
            await well.heard.wait()
    assert "display stuck failed and was dropped, the run goes on: no first frame after 3 events" in caplog.messages
    assert len(well.events) == bus.view.leases.admitted == 19


async def test_a_stuck_watcher_holds_up_the_end_of_a_run_only_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pace_async.observe.bus.CLOSE_S", 0.1)
    bus = Bus(EMPTY)
    with anyio.fail_after(10):
        async with observing(bus, [Stuck(), well := Recorder()]):
            bus.publish(opened(1))
            await well.heard.wait()
    assert well.closed == 1
    assert "display stuck did not close within 0.1 s and was left" in caplog.text


async def test_what_the_run_raises_passes_through_as_it_is_after_the_last_frame() -> None:
    watcher = Recorder()
    with pytest.raises(ZeroDivisionError, match="from the run"), anyio.fail_after(10):
        async with observing(bus := Bus(EMPTY), [watcher]):
            bus.publish(opened(1))
            raise ZeroDivisionError("from the run")
    assert (watcher.closed, len(watcher.events)) == (1, 1)


async def test_a_cancelled_run_still_shows_its_last_events_and_closes_its_watchers() -> None:
    watcher = Recorder()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                async with observing(bus := Bus(EMPTY), [watcher]):
                    bus.publish(opened(1))
                    tasks.cancel_scope.cancel()
                    bus.publish(opened(2))
                    await anyio.sleep_forever()

            tasks.start_soon(run)
    assert watcher.events == [opened(1), opened(2)]
    assert watcher.closed == 1
