"""The screen fits its terminal, stays in place, and never holds up or breaks a run."""

import contextlib
import fcntl
import io
import os
import re
import struct
import termios
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from pace_async.config import StopConfig
from pace_async.events import FaultSeen, ImplementerCalled, ImplementerReserved, RunStateChanged
from pace_async.observe.choose import NoDisplay, choose
from pace_async.observe.fold import fold
from pace_async.observe.layout import frame
from pace_async.observe.ledger import Ledger
from pace_async.observe.model import Note, RunView
from pace_async.observe.output import PENDING_BYTES, Output
from pace_async.observe.plain import PlainDisplay
from pace_async.observe.rich_display import HOLD, SHOW, RichDisplay
from pace_async.observe.sections import recent
from tests.support.observe_facts import BEGIN, fold_all, life, scored
from tests.support.population_facts import HEADER, advised, opened, seed_program

XTERM = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
EVIL = "\x1b[2J\x1b[31m[bold]x[/bold]\u202e\u0301中文😀\r\n" * 9
SIZES = st.tuples(st.integers(1, 220), st.integers(1, 70))
VIEWS = st.integers(0, 40)


def moments(seed: int) -> list[RunView]:
    """The view after each fact of a life, in which every name and text is hostile."""
    objective = "none" if seed % 4 == 0 else EVIL
    header = replace(HEADER, name=EVIL, task=EVIL, advisor=EVIL, sandbox=EVIL, objective=objective)
    view = RunView(header, StopConfig(candidates=20, target=3.0))
    views = [view]
    for fact in life(seed):
        view = fold(view, fact)
        views.append(view)
    hostile = [opened(90), advised(90, experiment=EVIL), replace(scored(90, 9.0, BEGIN + 900), outcome="ok")]
    return [*views, fold_all(view, hostile)]


class Screen:
    """A terminal of a given size: what `output` writes is read in a thread, from the start or only from `watch` on."""

    def __init__(self, columns: int, rows: int) -> None:
        self._master, slave = os.openpty()
        self._stream = os.fdopen(slave, "w", encoding="utf-8")
        self._parts: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self.resize(columns, rows)
        self.output = Output(self._stream)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._stream.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def watch(self) -> None:
        self._reader.start()

    def text(self) -> str:
        """All text that arrived. No further text arrives."""
        self.output.close()
        self._stream.close()
        self._reader.join(timeout=20)
        return b"".join(self._parts).decode()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while part := os.read(self._master, 65536):
                self._parts.append(part)
        os.close(self._master)


@contextmanager
def terminal(columns: int, rows: int, *, watched: bool = True) -> Generator[Screen, None, None]:
    screen = Screen(columns, rows)
    if watched:
        screen.watch()
    try:
        yield screen
    finally:
        if not watched:
            screen.watch()
        screen.text()


@settings(deadline=None, max_examples=60)
@given(seed=VIEWS, size=SIZES, ahead=st.floats(0, 10_000))
def test_a_frame_fits_its_terminal_and_keeps_its_height_whatever_the_run_says(
    seed: int, size: tuple[int, int], ahead: float
) -> None:
    columns, rows = size
    views = moments(seed)
    shown = [frame(view, view.last_at + ahead, columns, rows) for view in (views[0], views[7], views[-1])]
    assert len({len(lines) for lines in shown}) == 1
    assert len(shown[0]) <= max(1, rows - 1)
    for line in (line for lines in shown for line in lines):
        assert line.cell_len <= columns
        assert "\n" not in line.plain and "\x1b" not in line.plain and "\u202e" not in line.plain


SHAPES = pytest.mark.parametrize(
    ("columns", "rows"), [(120, 40), (100, 24), (80, 40), (80, 24), (60, 24), (40, 12), (20, 14)]
)


def screen_text(view: RunView, columns: int, rows: int) -> str:
    return "\n".join(line.plain for line in frame(view, view.last_at, columns, rows))


@pytest.mark.fault("Configuration and terminal", "20 columns", only="20-14")
@SHAPES
def test_every_size_shows_the_best_score_the_stop_rule_and_the_staleness(columns: int, rows: int) -> None:
    view = fold_all(RunView(HEADER, StopConfig(candidates=40)), life(4))
    shown = screen_text(view, columns, rows)
    assert view.best is not None
    assert f"{view.best.score:.4f}" in shown
    assert re.search(rf"{view.candidates}( of |/)40", shown)
    assert "stale" in shown


@SHAPES
def test_every_size_shows_spend_budget_faults_the_limit_and_a_pause(columns: int, rows: int) -> None:
    paused = FaultSeen("implement", "all_providers_down", "the run pauses (b: overloaded)", None, BEGIN)
    calls = [ImplementerCalled(1, "m", "ok", 1, 1, 1.25, 1.0, BEGIN), ImplementerReserved(2, 2, "m", 0.03, BEGIN)]
    facts = [*life(4), *calls, *[FaultSeen("engine", "died", "", None, BEGIN)] * 30]
    view = fold_all(RunView(HEADER, StopConfig(candidates=40, budget=80.0)), facts)
    shown = screen_text(view, columns, rows)
    spent = f"${view.spend_usd:.2f}"
    assert view.spend_usd > 1 and re.search(rf"{re.escape(spent)}( \+ \$0\.03)?( reserved)?( of |/)\$80\.00", shown)
    assert columns < 30 or "$0.03" in shown
    assert re.search(rf"{view.faults} faults|faults {view.faults}", shown)
    assert re.search(r"slow(ed by)? +threads", shown)
    assert "paused" not in shown
    assert "paused" in screen_text(fold(view, paused), columns, rows)


@SHAPES
def test_the_advice_is_as_long_as_fits(columns: int, rows: int) -> None:
    slow = Ledger(rollouts=(1.0, 1.0, 9.0), evaluations=(1.0,), busy=9.0, learning=0.2)
    view = fold_all(RunView(replace(HEADER, threads=12)), [RunStateChanged("running", "", BEGIN)])
    shown = screen_text(replace(view, ledger=slow), columns, rows)
    (line,) = re.findall(r"(?m)slow(?:ed by)? +(staleness\S*(?: \S+)*)", shown)
    assert columns < 40 or "raise" in line
    assert "…" not in line


def test_a_large_terminal_is_filled() -> None:
    """With enough to tell, no row between the last event and the footer stays empty."""
    view = fold_all(RunView(HEADER), life(4, 60))
    for columns, rows in ((200, 50), (120, 40), (80, 50)):
        lines = [line.plain.strip() for line in frame(view, view.last_at, columns, rows)]
        assert len(lines) == rows - 1
        begin = next(index for index, line in enumerate(lines) if line.startswith("last events"))
        assert all(lines[begin:-2])
        assert lines[-1].startswith("Ctrl-C")


@pytest.mark.fault("Configuration and terminal", "an event too long for the screen keeps its value")
@pytest.mark.parametrize("columns", [60, 80])
def test_an_event_too_long_for_the_screen_keeps_what_happened_and_the_value(columns: int) -> None:
    idea = "Change the spacing between the rings, which was too tight for the outermost circles, from 0.25 to 0.375."
    view = fold_all(RunView(HEADER), [*life(4), replace(opened(90, 1), at=BEGIN + 400)])
    view = fold(view, replace(advised(90, 1, experiment=idea), at=BEGIN + 401))
    view = fold(view, scored(90, 2.61, BEGIN + 402))
    (line,) = [
        line.plain
        for line in frame(view, view.last_at, columns, 24)
        if "90 (island 1)" in line.plain and "★" in line.plain
    ]
    assert "scored 2.6100" in line
    assert line.rstrip().endswith(" … to 0.375." if columns > 60 else " … 0.375.")
    assert cell_len(line) <= columns


def test_the_learner_section_uses_plain_words() -> None:
    view = fold_all(RunView(HEADER), life(4))
    busy = replace(view, leases=replace(view.leases, buffered=15), header=replace(HEADER, group_size=8))
    aged = {"tokens_age_0": 10.0, "ess_age_0": 1.0, "tokens_age_2": 10.0, "ess_age_2": 0.87}
    shown = screen_text(replace(busy, learner=replace(busy.learner, metrics=aged)), 200, 50)
    assert "15 ready for groups of 8" in shown
    assert re.search(r"usable +100 % of new data · 87 % of data 2 updates old", shown)
    assert not re.search(r"next \d+ of|by age|\bess\b|\blimit\b", shown)
    assert "5 of 8 rollouts for the next" in screen_text(
        replace(busy, leases=replace(view.leases, buffered=5)), 200, 50
    )


def test_the_clock_goes_on_while_the_stages_start() -> None:
    starting = replace(RunView(HEADER), begun_at=BEGIN)
    for seconds, clock in ((5, "0:05"), (65, "1:05")):
        lines = [line.plain for line in frame(starting, BEGIN + seconds, 80, 24)]
        assert lines[0].rstrip().endswith(clock)
    running = fold(starting, RunStateChanged("running", "", BEGIN + 70))
    assert running.elapsed(BEGIN + 75) == 5


def test_eighty_by_twenty_four_has_room_for_three_events() -> None:
    view = fold_all(RunView(HEADER), life(4))
    lines = [line.plain.rstrip() for line in frame(view, view.last_at, 80, 24)]
    begin = next(index for index, line in enumerate(lines) if "last events" in line)
    assert all(lines[begin + 1 : begin + 4])
    assert len(lines) == 23


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 30), (30, 12)])
def test_typed_keys_are_echoed_behind_the_last_line(size: tuple[int, int]) -> None:
    view = fold_all(RunView(HEADER), [RunStateChanged("running", "", BEGIN)])
    for state in ("running", "draining"):
        last = frame(replace(view, state=state), BEGIN, *size)[-1]
        assert last.cell_len <= size[0] - len("^C^C")
        assert size[0] < 60 or ("Ctrl-C: " in last.plain and "…" not in last.plain)


@pytest.mark.parametrize(("size", "rows_of_events"), [((120, 40), 11), ((80, 24), 6), ((80, 40), 13)])
def test_a_run_that_trains_nothing_says_so_and_gives_the_room_of_the_learner_to_the_rest(
    size: tuple[int, int], rows_of_events: int
) -> None:
    header = replace(HEADER, objective="none", advisor="api:openai/any", threads=4)
    view = fold_all(RunView(header), life(4, 60))
    lines = [line.plain.strip() for line in frame(view, view.last_at, *size)]
    assert "learning  none: an advisor that is asked over the network learns nothing" in lines
    titles = [line.partition(" ──")[0] for line in lines if " ──" in line and "%" not in line.partition("──")[0]]
    assert [title for title in titles if not title.startswith(header.name)] == ["best so far", "search", "last events"]
    begin = next(number for number, line in enumerate(lines) if line.startswith("last events"))
    assert all(lines[begin + 1 : begin + 1 + rows_of_events])
    assert len(lines) == size[1] - 1


@pytest.mark.parametrize("objective", ["none", "pace"])
def test_beside_the_threads_stand_the_leases_in_flight_not_those_that_wait(objective: str) -> None:
    view = fold_all(RunView(replace(HEADER, objective=objective, threads=4)), life(4, 60))
    waiting = replace(view.leases, admitted=24, buffered=20, training=0, trained=0, skipped=0, aborted=0, expired=0)
    shown = screen_text(replace(view, leases=waiting), 120, 40)
    assert "4 threads · 4 in flight" in shown
    assert "leases    4 in flight · 20 complete" in shown
    assert ("0 training" in shown) == (objective == "pace")


def test_ordinary_candidates_take_at_most_half_of_the_events() -> None:
    ordinary = [Note(float(n), "candidate", f"c{n}") for n in range(20)]
    notes = [Note(-1.0, "group", "g1"), Note(-0.5, "best", "b1"), *ordinary]
    assert [note.text for note in recent(notes, 4)] == ["g1", "b1", "c18", "c19"]
    assert [note.text for note in recent(ordinary, 3)] == ["c17", "c18", "c19"]
    assert recent([], 3) == [] and recent(notes, 0) == []


async def draw(screen: Screen, environment: dict[str, str], *views: RunView) -> str:
    display = RichDisplay(screen.output, environment)
    with anyio.fail_after(20):
        for view in views:
            await display.refresh(view, view.last_at)
        await display.close(views[-1], views[-1].last_at)
    return screen.text()


async def test_frames_are_redrawn_in_place_and_the_last_one_stays() -> None:
    views = moments(2)
    with terminal(100, 30) as screen:
        text = await draw(screen, XTERM, views[3], views[-1])
    height = len(frame(views[3], 0.0, 100, 30))
    first, *redrawn = text.split(HOLD)[1:]
    assert "\x1b[1A" not in first and first.endswith(SHOW)
    assert [again.split(SHOW)[0].count("\x1b[1A") for again in redrawn] == [height - 1] * 2
    assert text.endswith("\r\n\x1b[?25h")
    assert "\x1b[?1049h" not in text


@pytest.mark.fault("Configuration and terminal", "NO_COLOR")
async def test_no_color_means_no_color() -> None:
    view = moments(2)[-1]
    for environment, coloured in ((XTERM, True), ({**XTERM, "NO_COLOR": "1"}, False)):
        with terminal(100, 30) as screen:
            styles = re.findall(r"\x1b\[([0-9;]*)m", await draw(screen, environment, view))
        numbers = {number for style in styles for number in style.split(";")}
        assert bool(numbers & {str(n) for n in (*range(30, 50), *range(90, 108))}) is coloured


@pytest.mark.fault("Configuration and terminal", "hostile text cannot steer the terminal")
async def test_nothing_but_our_own_control_sequences_reaches_the_terminal() -> None:
    with terminal(120, 40) as screen:
        text = await draw(screen, XTERM, moments(1)[-1])
    rest = re.sub(r"\x1b\[(\?(2026|25)[hl]|[0-9;]*m|1A|2K)", "", text)
    assert "\x1b" not in rest and "\u202e" not in rest
    assert "[bold]x[/bold]" in rest


async def test_a_terminal_that_is_resized_is_cleared_and_fitted() -> None:
    view = moments(2)[-1]
    with terminal(120, 40) as screen, anyio.fail_after(20):
        display = RichDisplay(screen.output, XTERM)
        await display.refresh(view, view.last_at)
        screen.resize(20, 12)
        await display.refresh(view, view.last_at)
        await display.close(view, view.last_at)
        text = screen.text()
    assert text.count("\x1b[2J") == 1
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.split("\x1b[2J")[1])
    assert max(cell_len(line) for line in re.split("[\r\n]+", plain)) <= 20


async def test_a_terminal_that_takes_nothing_does_not_hold_up_the_run() -> None:
    views = moments(3)
    with terminal(120, 40, watched=False) as screen, anyio.fail_after(60):
        display = RichDisplay(screen.output, XTERM)
        while await screen.output.drain(1.0):  # the kernel may take more a moment after it was full
            await display.refresh(views[-1], 0.0)
        held = screen.output.pending
        for view in views[::10]:
            await display.refresh(view, view.last_at)
        assert screen.output.pending == held
        assert not await screen.output.drain(0.01)


async def test_a_pipe_without_a_reader_buffers_lines_and_drops_the_rest() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        output = Output(stream)
        line = "x" * 999 + "\n"
        for _ in range(1000):
            output.write(line)
            output.flush()
        assert output.pending <= PENDING_BYTES + len(line)
        assert output.left_out > 100
        with anyio.fail_after(10):
            assert not await output.drain(0.01)
        os.close(reader)
        with anyio.fail_after(10):
            assert await output.drain(5.0)
        assert output.gone


@pytest.mark.fault("Configuration and terminal", "standard output closed")
@pytest.mark.parametrize("kind", ["plain", "rich"])
async def test_a_closed_standard_output_is_no_error(kind: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    view = moments(1)[-1]
    with os.fdopen(writer, "w") as stream:
        output = Output(stream)
        display = PlainDisplay(output) if kind == "plain" else RichDisplay(output, XTERM)
        for _ in range(3):
            display.take(seed_program(), view)
            await display.refresh(view, view.last_at)
        await display.close(view, view.last_at)
    assert output.gone


async def test_an_encoding_without_blocks_gets_plain_characters() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    output = Output(stream)
    output.write("best ▁▄█ · 中…\n")
    assert await output.drain(1.0)
    assert raw.getvalue() == b"best .:# * ?.\n"


@pytest.mark.fault("Configuration and terminal", "no terminal")
def test_the_display_depends_on_the_output() -> None:
    with terminal(80, 24) as screen:
        output = screen.output
        assert isinstance(choose("auto", output, XTERM), RichDisplay)
        assert isinstance(choose("rich", output, XTERM), RichDisplay)
        assert isinstance(choose("plain", output, XTERM), PlainDisplay)
        assert isinstance(choose("none", output, XTERM), NoDisplay)
        assert isinstance(choose("auto", output, {"TERM": "dumb"}), PlainDisplay)
    assert isinstance(choose("auto", Output(io.StringIO()), XTERM), PlainDisplay)
    assert isinstance(choose("rich", Output(io.StringIO()), XTERM), PlainDisplay)
