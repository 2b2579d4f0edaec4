"""Shows a run that another process drives, by following its facts.

Invariant: nothing is written to the population, and between two looks at least REST times the length of a look passes,
so that the first look at a long run does not take all of a processor. A database that is away for a while is waited
for.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import anyio

from pace_async.baseline import BaselineComparison
from pace_async.errors import UsageError
from pace_async.events import EpochInForce
from pace_async.observe.bus import BEAT_S
from pace_async.observe.followed import cut_off
from pace_async.observe.formatting import duration, score
from pace_async.observe.history import begin_following
from pace_async.observe.keyboard import Keyboard
from pace_async.observe.model import Note, RunView
from pace_async.observe.output import Output
from pace_async.observe.plain import EVERY, SHOWN, figures, heading
from pace_async.observe.rich_display import RichDisplay
from pace_async.population.reading.following import Following
from pace_async.population.reading.reader import Reader

REST = 4.0
"""Pause after a look, in lengths of the look."""
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class ViewUpdate:
    """A view, and the notes since the last look, at first the last LAST_NOTES that a log shows, oldest first."""

    view: RunView
    notes: tuple[Note, ...]

    @property
    def ended(self) -> bool:
        """Whether the run is over, or its process has died."""
        return self.view.ended_at is not None


class Source:
    """Looks at a run. `driven` says whether a process drives it, None if that is unknown, and why it waits, empty if it
    does not. `best_known` is the best score known for its task, `beside` what is recorded of such runs."""

    def __init__(
        self,
        reader: Reader,
        driven: Callable[[], tuple[bool | None, str]],
        best_known: float | None,
        beside: BaselineComparison | None = None,
    ) -> None:
        self._reader, self._driven = reader, driven
        self._best_known, self._beside = best_known, beside
        self._notes: list[Note] = []
        self._begin()

    def look(self) -> ViewUpdate:
        """The run now. Raises UsageError if it cannot be read."""
        driven, stalled = self._driven()  # before the facts: a run that ends in between is never shown as cut off
        before = self._following.seq
        for entry in self._following.news():
            if before and isinstance(entry.fact, EpochInForce):  # earlier candidates have other scores from now on
                self._begin()
                return replace(self.look(), notes=())
            note = self._followed.take(entry.fact)
            self._notes += () if note is None else (note,)
        view, notes, self._notes = self._followed.view, tuple(self._notes), []
        if self._first:
            self._first, notes = False, self._followed.shown
        if view.ended_at is None and driven is False:
            view = cut_off(view)
        return ViewUpdate(replace(view, stalled=stalled), notes)

    def _begin(self) -> None:
        self._followed, after = begin_following(self._reader, self._best_known, self._beside)
        self._following = Following(self._reader, after)
        self._first = True


class Screen(Protocol):
    """Shows what was looked at."""

    async def show(self, looked: ViewUpdate, now: float) -> None:
        """Show it. `now` in seconds since the epoch."""
        ...

    async def close(self, looked: ViewUpdate, now: float) -> None:
        """Show it for the last time."""
        ...

    async def obey_keys(self) -> None:
        """Obey keys while the run is shown. Returns at once if there are none."""
        ...


class FramedScreen:
    """The live screen of a run, on a terminal. `keyboard` is None where no keys can be typed."""

    def __init__(self, display: RichDisplay, keyboard: Keyboard | None = None) -> None:
        self._display, self._keyboard = display, keyboard
        self._shown: tuple[RunView, float] | None = None

    async def obey_keys(self) -> None:
        if self._keyboard is None:
            return
        with self._keyboard:
            self._display.panels.keys = True
            async for key in self._keyboard.keys():
                self._display.panels.press(key)
                if self._shown is not None:
                    await self._display.refresh(*self._shown)

    async def show(self, looked: ViewUpdate, now: float) -> None:
        self._shown = looked.view, now
        await self._display.refresh(looked.view, now)

    async def close(self, looked: ViewUpdate, now: float) -> None:
        await self._display.close(looked.view, now)


class LinesScreen:
    """Lines for pipes and logs: the same that the run prints itself, from the moment of the first look on."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._figures_at: int | None = None

    async def show(self, looked: ViewUpdate, now: float) -> None:
        view = looked.view
        if self._figures_at is None:
            lines = snapshot(looked, now)
            self._figures_at = view.candidates
        else:
            lines = [_line(view, note) for note in looked.notes if note.kind in SHOWN]
        if view.candidates - self._figures_at >= EVERY:
            lines.append(f"{_clock(view, now)}  {figures(view, now)}")
            self._figures_at = view.candidates
        self._output.write("".join(f"{line}\n" for line in lines))
        self._output.flush()

    async def obey_keys(self) -> None:
        """No keys."""

    async def close(self, looked: ViewUpdate, now: float) -> None:
        await self._output.drain(2.0)


def snapshot(looked: ViewUpdate, now: float) -> list[str]:
    """A run in a few lines: what it is, its figures, and the last that happened."""
    view = looked.view
    state = view.state.replace("_", " ")
    reason = f": {view.reason}" if view.reason else ""
    status = f"paused: {view.stalled}" if view.stalled and not looked.ended else f"{state}{reason}"
    seed = "" if view.seed_score is None else f" · the seed program scores {score(view.seed_score)}"
    lines = [heading(view), f"{'':>7}  {status}{seed}", f"{'':>7}  {figures(view, view.ended_at or now)}"]
    return [*lines, *(_line(view, note) for note in looked.notes)]


def _line(view: RunView, note: Note) -> str:
    return f"{_clock(view, note.at)}  {note.text}"


def _clock(view: RunView, at: float) -> str:
    return f"{duration(at - (view.started_at if view.started_at is not None else at)):>7}"


async def follow(
    source: Source, screen: Screen, clock: Callable[[], float] = time.time, beat_s: float = BEAT_S
) -> RunView:
    """Show the run until it ends, at most every `beat_s` seconds. Returns its last view. Raises UsageError if it cannot
    be read at first, or any more for PATIENCE_S seconds."""
    failure: Exception | None = None
    view: RunView | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(screen.obey_keys)
        try:
            view = await _followed(source, screen, clock, beat_s)
        except Exception as error:  # as it is, and not in a group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    assert view is not None
    return view


async def _followed(source: Source, screen: Screen, clock: Callable[[], float], beat_s: float) -> RunView:
    looked = source.look()
    read_at = anyio.current_time()
    try:
        while True:
            await screen.show(looked, clock())
            if looked.ended:
                return looked.view
            begun = anyio.current_time()
            try:
                looked = source.look()
                read_at = anyio.current_time()
            except UsageError:
                if anyio.current_time() - read_at > PATIENCE_S:
                    raise
            await anyio.sleep(max(beat_s, REST * (anyio.current_time() - begun)))
    finally:
        with anyio.CancelScope(shield=True):
            await screen.close(looked, clock())
