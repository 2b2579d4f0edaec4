"""pace watch: the screen of a run that something else drives."""

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pace_async.errors import UsageError
from pace_async.events import Fact, RunStateChanged
from pace_async.observe.output import Output
from pace_async.observe.watching import LinesScreen, Source, ViewUpdate, follow
from pace_async.population.lock import RunLock
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store
from tests.support.command_line import Shell
from tests.support.finished_runs import poison
from tests.support.observe_facts import BEGIN, life
from tests.support.population_facts import HEADER, empty_population
from tests.support.postgres import PostgresServer

RUN = "runs/circle_packing-1"


pytestmark = pytest.mark.usefixtures("finished_run")


def change(shell: Shell, statement: str) -> None:
    database = sqlite3.connect(shell.folder / RUN / "population.db")
    with database:
        database.execute(statement)
    database.close()


def test_a_finished_run_is_shown_in_lines_and_not_changed(shell: Shell) -> None:
    file = shell.folder / RUN / "population.db"
    before = file.read_bytes()
    followed, once = shell.pace("watch", "circle_packing-1"), shell.pace("watch", "circle_packing-1", "--once")
    assert followed.code == once.code == 0
    assert followed.out == once.out
    lines = once.out.splitlines()
    assert lines[0].startswith("run simulated · task circle_packing")
    assert lines[1].strip().startswith("done: stop rule candidates met")
    assert "40 of 40 candidates" in lines[2]
    assert lines[-1].endswith("done: stop rule candidates met")
    assert file.read_bytes() == before


def test_a_run_whose_process_has_died_ends_the_screen_and_says_how_to_go_on(shell: Shell) -> None:
    change(shell, "delete from run_states where state <> 'running'")
    said = shell.pace("watch", "circle_packing-1")
    assert said.code == 0
    assert "cut off" in said.out.splitlines()[1]
    assert "`pace resume runs/circle_packing-1` goes on" in said.out.splitlines()[-1]


def test_a_run_that_is_driven_is_not_cut_off_and_says_why_it_waits(shell: Shell) -> None:
    change(shell, "delete from run_states where state <> 'running'")
    with RunLock(shell.folder / RUN) as lock:
        assert shell.pace("watch", "--once").out.splitlines()[1].strip().startswith("running")
        lock.waits("the disk is full", BEGIN)
        assert "paused: the disk is full" in shell.pace("watch", "--once").out


def test_a_run_is_named_by_the_url_of_its_database_too(shell: Shell) -> None:
    url = f"sqlite:///{shell.folder / RUN / 'population.db'}"
    assert shell.pace("watch", url, "--once").out == shell.pace("watch", "--once").out
    assert shell.pace("watch", f"{url}#simulated", "--once").code == 0
    wrong = shell.pace("watch", f"{url}#another", "--once")
    assert (wrong.code, len(wrong.err.splitlines())) == (2, 1)
    assert "did you mean 'simulated'" in wrong.err


def test_hostile_text_cannot_steer_the_terminal(shell: Shell) -> None:
    poison(shell.folder / RUN)
    said = shell.pace("watch", "--once")
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out


class Kept:
    """Makes the next commit after each look, as another process would, and keeps the lines."""

    def __init__(self, store: Store, file: Path, commits: list[list[Fact]]) -> None:
        self._store, self._commits = store, iter(commits)
        self._file = file.open("w+", encoding="utf-8")
        self._lines = LinesScreen(Output(self._file))
        self.candidates: list[int] = []

    async def show(self, looked: ViewUpdate, now: float) -> None:
        self.candidates.append(looked.view.candidates)
        await self._lines.show(looked, now)
        await self._store.commit(*next(self._commits, list[Fact]()))

    async def obey_keys(self) -> None:
        await self._lines.obey_keys()

    async def close(self, looked: ViewUpdate, now: float) -> None:
        await self._lines.close(looked, now)
        self._file.close()


async def followed(tmp_path: Path, place: str | Path) -> tuple[list[int], list[str]]:
    facts = [*life(3), RunStateChanged("done", "candidates", BEGIN + 500)]
    commits = [facts[at : at + 25] for at in range(0, len(facts), 25)]
    async with Store.open(place) as store:
        await store.create_run(replace(HEADER, config={"stop": {"candidates": 24}}))
        screen = Kept(store, tmp_path / "lines", commits)
        with open_readonly(place, "demo") as reader:
            source = Source(reader, lambda: (None, ""), None)
            with anyio.fail_after(60):
                await follow(source, screen, lambda: BEGIN + 600, beat_s=0.0)
    return screen.candidates, (tmp_path / "lines").read_text(encoding="utf-8").splitlines()


def told(lines: list[str], word: str) -> list[str]:
    return [line for line in lines if word in line]


def assert_whole(candidates: list[int], lines: list[str]) -> None:
    assert candidates == sorted(candidates)
    assert candidates[0] == 0 and candidates[-1] > 10
    assert len(told(lines, "the best so far")) == len(set(told(lines, "the best so far"))) > 2
    assert len(told(lines, "done: stop rule candidates met")) == 1
    assert lines[-1].endswith("done: stop rule candidates met")


def test_a_run_is_followed_commit_by_commit_to_its_end(tmp_path: Path) -> None:
    assert_whole(*anyio.run(followed, tmp_path, empty_population(tmp_path)))


def test_a_run_on_a_server_is_followed_to_its_end(tmp_path: Path, postgres: PostgresServer) -> None:
    assert_whole(*anyio.run(followed, tmp_path, postgres.new()))


def test_a_database_that_goes_away_for_a_moment_does_not_end_the_screen(shell: Shell, tmp_path: Path) -> None:
    class Away(Source):
        looks = 0

        def look(self) -> ViewUpdate:
            self.looks += 1
            found = super().look()
            if self.looks == 2:
                raise UsageError("away")
            return found if self.looks > 2 else replace(found, view=replace(found.view, ended_at=None))

    with open_readonly(shell.folder / RUN / "population.db") as reader, Path(os.devnull).open("w") as nowhere:
        source = Away(reader, lambda: (True, ""), None)
        view = anyio.run(lambda: follow(source, LinesScreen(Output(nowhere)), beat_s=0.0))
    assert (source.looks, view.state) == (3, "done")
