"""Keys on the live screen: what they show, and that the terminal has its modes again after every end."""

import io
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.observe.keyboard import DOWN, ESCAPE, PAGE_DOWN, UP, Keyboard, keys_in
from pace_async.observe.layout import frame
from pace_async.observe.model import RunView
from pace_async.observe.output import Output
from pace_async.observe.panels import Panels
from pace_async.observe.rich_display import RichDisplay
from pace_async.observe.watching import FramedScreen, ViewUpdate
from tests.doubles.keyboards import Typed
from tests.support.observe_facts import BEGIN, fold_all, life
from tests.support.population_facts import HEADER

VIEW = fold_all(RunView(HEADER), list(life(3)))
PROGRAM = "def radii():\n\treturn 1\n" + "\n".join(f"line = {number}" for number in range(3, 60))
EVIL = "\x1b[2J\x1b]0;owned\x07\u202e" * 3 + "\n" + "x" * 5000
SCRIPT = """
import fcntl, os, sys, termios
import anyio
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from pace_async.observe.keyboard import Keyboard, restore_all

async def main():
    keyboard = Keyboard.of()
    with keyboard:
        print("ready", flush=True)
        async for key in keyboard.keys():
            print(key, flush=True)
            if key == "x":
                raise RuntimeError
            if key == "e":
                restore_all()
                os._exit(3)

anyio.run(main)
"""


def text_of(panels: Panels, columns: int = 110, rows: int = 34, view: RunView = VIEW) -> str:
    return "\n".join(line.plain for line in panels.frame(view, BEGIN + 400, columns, rows, "the footer"))


def shows(panels: Panels, *keys: str) -> str:
    for key in keys:
        panels.press(key)
    return text_of(panels)


def keyed(program: str | None = PROGRAM) -> Panels:
    panels = Panels()
    panels.keys = panels.pauses = True
    panels.program = lambda candidate: program
    return panels


def test_sequences_have_names_and_unknown_ones_are_left_out() -> None:
    assert keys_in(b"p\x1b[A\x1b[1;5B?\x1bOB\x1b[6~\x1b") == ["p", UP, "?", DOWN, PAGE_DOWN, ESCAPE]
    assert keys_in(b"\x1b[") == []
    assert keys_in("é".encode()) == ["\ufffd", "\ufffd"]


def test_keys_choose_the_panel_and_lead_back() -> None:
    panels = keyed()
    overview = "\n".join(line.plain for line in frame(VIEW, BEGIN + 400, 110, 34, "the footer · ?: keys"))
    assert text_of(panels) == overview
    assert "last events" in shows(panels, "n") and "threads" not in text_of(panels)
    assert "def radii():" in shows(panels, "\t")
    assert shows(panels, "n") == overview
    assert "pause: no new candidates" in shows(panels, "?")
    assert shows(panels, "?") == overview
    assert shows(panels, "b", "b") == overview
    assert shows(panels, "b", "q") == overview
    assert shows(panels, "b", ESCAPE, "z") == overview
    panels.pauses = False
    assert "pause" not in shows(panels, "?")  # a screen of a run that another process drives


def test_the_best_program_can_be_read_to_its_last_line_and_no_further() -> None:
    panels = keyed()
    first = shows(panels, "b")
    assert "   2     return 1" in first and "line = 59" not in first
    assert "line = 59" in shows(panels, *[PAGE_DOWN] * 20)
    assert "def radii" in shows(panels, *[UP] * 80)
    assert "cannot be read now" in shows(keyed(None), "b")


def test_a_run_that_has_ended_shows_the_overview() -> None:
    panels = keyed()
    panels.press("b")
    assert "def radii" not in text_of(panels, view=replace(VIEW, ended_at=BEGIN + 300, state="done"))


@settings(deadline=None, max_examples=25)
@given(columns=st.integers(1, 220), rows=st.integers(1, 70), keys=st.lists(st.sampled_from("nb?j\t"), max_size=4))
def test_a_panel_fits_its_terminal_and_has_the_height_of_the_overview(columns: int, rows: int, keys: list[str]) -> None:
    panels = keyed(EVIL)
    for key in keys:
        panels.press(key)
    lines = panels.frame(VIEW, BEGIN + 400, columns, rows, "the footer")
    assert len(lines) == len(frame(VIEW, BEGIN + 400, columns, rows, "the footer"))
    assert all(line.cell_len <= max(1, columns) for line in lines)
    assert not any("\x1b" in line.plain or "\u202e" in line.plain for line in lines)


async def test_a_watched_run_obeys_keys_at_once() -> None:
    stream = io.StringIO()
    display = RichDisplay(Output(stream), {"TERM": "xterm"})
    display.panels.program = lambda candidate: PROGRAM
    obeyed = anyio.Event()
    keyboard = Typed("b", lambda key: obeyed.set())
    screen = FramedScreen(display, keyboard)
    await screen.show(ViewUpdate(VIEW, ()), BEGIN + 400)
    assert "def radii" not in stream.getvalue()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(screen.obey_keys)
        with anyio.fail_after(30):
            await obeyed.wait()
        tasks.cancel_scope.cancel()
    assert display.panels.shown == "best"
    assert "def radii" in stream.getvalue()
    assert keyboard.left


@pytest.mark.parametrize("stream", [io.StringIO(), None], ids=["text", "closed"])
def test_what_is_no_terminal_has_no_keys(stream: io.StringIO | None) -> None:
    if stream is None:
        read, write = os.pipe()
        with os.fdopen(read) as piped:
            assert Keyboard.of(piped) is None
        os.close(write)
    else:
        assert Keyboard.of(stream) is None


@dataclass
class Child:
    """A process on a terminal of its own that reads keys."""

    process: "subprocess.Popen[bytes]"
    master: int
    slave: int
    before: list[Any]

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    @property
    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.slave)

    @property
    def is_single(self) -> bool:
        return not self.modes[3] & (termios.ICANON | termios.ECHO) and bool(self.modes[3] & termios.ISIG)


@pytest.fixture
def child() -> Generator[Child]:
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    found = Child(process, master, slave, before)
    assert found.says() == "ready"
    yield found
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    os.close(master)
    os.close(slave)


def test_a_stopped_process_gives_the_terminal_back_and_takes_it_again_and_an_error_restores_it(child: Child) -> None:
    assert child.is_single
    child.type(b"b\x1b[A")
    assert [child.says(), child.says()] == ["b", UP]
    os.kill(child.process.pid, signal.SIGTSTP)
    _, status = os.waitpid(child.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert child.modes == child.before
    os.kill(child.process.pid, signal.SIGCONT)
    child.type(b"c\n")  # the line end in case it is typed before the modes are set
    assert child.says() == "c"
    assert child.is_single
    child.type(b"x")
    assert child.process.wait() == 1
    assert child.modes == child.before


def test_an_exit_without_clean_up_restores_the_terminal(child: Child) -> None:
    child.type(b"e")
    assert child.process.wait() == 3
    assert child.modes == child.before
