"""What every display must do: the screen, plain lines, JSON lines, none, and the double that records everything."""

import io
import logging
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from pace_async.events import StageChanged
from pace_async.observe.base import Display, Event
from pace_async.observe.bus import Bus, observing
from pace_async.observe.choose import NoDisplay
from pace_async.observe.jsonl import JsonlDisplay
from pace_async.observe.model import RunView
from pace_async.observe.output import Output
from pace_async.observe.plain import PlainDisplay
from pace_async.observe.rich_display import RichDisplay
from pace_async.observe.watchers.base import LoggedRun
from pace_async.observe.watchers.follower import WatcherDisplay
from pace_async.population.store import Store
from tests.doubles.displays import Recorder
from tests.doubles.watchers import KeptRecords
from tests.support.observe_facts import BEGIN, fold_all, life
from tests.support.population_facts import HEADER, empty_population

EMPTY = RunView(HEADER)


async def a_run(folder: Path) -> Path:
    place = empty_population(folder)
    async with Store.open(place) as store:
        await store.create_run(HEADER)
    return place


MAKERS: dict[str, Callable[[Path], Display]] = {
    "rich": lambda folder: RichDisplay(Output(io.StringIO()), {"TERM": "xterm"}),
    "plain": lambda folder: PlainDisplay(Output(io.StringIO())),
    "jsonl": lambda folder: JsonlDisplay(folder / "events.jsonl"),
    "none": lambda folder: NoDisplay(),
    "watcher": lambda folder: WatcherDisplay(
        "kept", KeptRecords(), LoggedRun("demo", "toy", BEGIN, folder, {}), anyio.run(a_run, folder), "demo", EMPTY, 0
    ),
    "double": lambda folder: Recorder(),
}


@pytest.fixture(params=MAKERS)
def display(request: pytest.FixtureRequest, tmp_path: Path) -> Display:
    return MAKERS[request.param](tmp_path)


async def test_it_has_a_name_and_shows_a_whole_run_without_being_dropped(
    display: Display, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus(EMPTY)
    with anyio.fail_after(30), caplog.at_level(logging.WARNING):
        async with observing(bus, [display]):
            for fact in life(3):
                bus.publish(fact)
    assert display.name
    assert caplog.messages == []


async def test_a_display_changes_neither_events_nor_views(display: Display) -> None:
    events: list[Event] = [*life(5), StageChanged(1, None, "advise")]
    view = EMPTY
    for event in life(5):
        view = fold_all(view, [event])
    before = fold_all(EMPTY, list(life(5)))
    for event in events:
        display.take(event, view)
        await display.refresh(view, BEGIN)
    await display.close(view, BEGIN)
    assert view == before


async def test_a_run_that_ends_before_its_first_event_is_closed_like_any_other(display: Display) -> None:
    with anyio.fail_after(30):
        await display.close(EMPTY, BEGIN)
