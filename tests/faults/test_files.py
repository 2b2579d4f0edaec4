"""Files beside the population that cannot be written: reported, and the run goes on without them."""

import json
import logging
import sqlite3
import subprocess
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from pace_async.config import StopConfig
from pace_async.evaluate import memo as memos
from pace_async.evaluate.base import Evaluation
from pace_async.evaluate.memo import Key, ScoreMemo
from pace_async.events import RunStateChanged
from pace_async.observe.jsonl import JsonlDisplay
from pace_async.observe.model import RunView
from pace_async.runtime.run_paths import RunPaths
from pace_async.runtime.start.assemble import keep_best
from pace_async.search.state import Member
from tests.support.command_line import PACE, Shell
from tests.support.finished_runs import make_run
from tests.support.population_facts import HEADER
from tests.support.small_disk import fill, small_disk

FIRST, SECOND = (Key("task", seed, "program", "here") for seed in (1, 2))
GOOD = Evaluation("ok", 1.0, 2.0)


@contextmanager
def locked(file: Path) -> Generator[None]:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        other.close()


@contextmanager
def corrupt(file: Path) -> Generator[None]:
    """Every page but the first is overwritten."""
    with sqlite3.connect(file) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()
    size = file.stat().st_size
    with file.open("rb+") as stream:
        stream.seek(4096)
        stream.write(b"\xff" * (size - 4096))
    yield


@contextmanager
def read_only(file: Path) -> Generator[None]:
    subprocess.run(["mount", "-o", "remount,ro", str(file.parent)], check=True)
    yield
    subprocess.run(["mount", "-o", "remount,rw", str(file.parent)], check=True)


@pytest.mark.fault("Disk, everywhere", "a score memo that is locked: gone on without, and told", only="locked")
@pytest.mark.fault("Disk, everywhere", "a score memo that is corrupt: gone on without, and told", only="corrupt")
@pytest.mark.fault("Disk, everywhere", "a score memo that is read-only: gone on without, and told", only="read_only")
@pytest.mark.parametrize(
    ("trouble", "when"),
    [(locked, "before"), (locked, "meanwhile"), (corrupt, "before"), (corrupt, "meanwhile"), (read_only, "before")],
    ids=["locked-before", "locked-meanwhile", "corrupt-before", "corrupt-meanwhile", "read_only-before"],
)
async def test_a_run_goes_on_without_an_unusable_memo_and_warns_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[Path], AbstractContextManager[None]], when: str
) -> None:
    monkeypatch.setattr(memos, "BUSY_S", 0.02)
    told: list[str] = []

    async def say(text: str) -> None:
        told.append(text)

    with small_disk(tmp_path / "disk") as disk:
        file = disk / "memo.sqlite"
        earlier = ScoreMemo(file)
        await earlier.open()
        await earlier.put(FIRST, GOOD)
        await earlier.close()
        memo = ScoreMemo(file, say)
        if when == "meanwhile":
            await memo.open()
        with trouble(file):
            if when == "before":
                await memo.open()
            await memo.get(FIRST)
            await memo.put(SECOND, GOOD)
            found = await memo.get(SECOND)
            assert found is not None and found.score == 1.0, "what is in memory is known all the same"
            await memo.put(Key("task", 3, "program", "here"), GOOD)
        await memo.close()
    assert len(told) == 1 and told[0].startswith(f"the score memo {file} is not used from here on")


@pytest.mark.fault("Disk, everywhere", "no space for the log of events: told once, and gone on")
async def test_lines_without_room_on_the_disk_wait_and_are_written_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    view = RunView(HEADER, StopConfig())
    with small_disk(tmp_path / "disk") as disk, caplog.at_level(logging.WARNING):
        display = JsonlDisplay(disk / "events.jsonl")
        display.take(RunStateChanged("running", "", 1.0), view)
        await display.refresh(view, 1.0)
        filler = fill(disk)
        for number in range(2000):
            display.take(RunStateChanged("running", "x" * 100, float(number)), view)
            if number % 1000 == 999:
                await display.refresh(view, 2.0)
        filler.unlink()
        await display.close(view, 3.0)
        lines = list(map(json.loads, (disk / "events.jsonl").read_text().splitlines()))
    assert [record.getMessage().partition("(")[2][:9] for record in caplog.records] == ["No space "]
    seen = [line["at"] for line in lines if line["event"] == "RunStateChanged"]
    assert seen == [1.0, *map(float, range(2000))]
    assert sum(line["event"] == "RunHeader" for line in lines) >= 1


@pytest.mark.fault("Disk, everywhere", "no space for best.py: told, and the exit code stays")
def test_a_best_program_without_room_on_the_disk_is_reported_without_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = Member(3, "x = 1\n" * 1000, 1.0)
    with small_disk(tmp_path / "disk") as disk:
        filler = fill(disk)
        keep_best(RunPaths(disk), ".py", best)
        said = capsys.readouterr().err
        assert said.startswith("pace: best.py could not be written (disk_full: ") and said.count("\n") == 1
        assert not RunPaths(disk).best().exists()
        filler.unlink()
        keep_best(RunPaths(disk), ".py", best)
        assert RunPaths(disk).best().read_text() == best.program


@pytest.mark.fault("Disk, everywhere", "no space for a report or an export: one sentence, and what was there stays")
@pytest.mark.parametrize("what", ["report", "export"])
def test_a_report_without_room_is_one_sentence_and_the_old_report_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    make_run(tmp_path / "demo")
    shell = Shell(tmp_path, monkeypatch, capsys)
    with small_disk(tmp_path / "disk") as disk:
        target = disk / "page"
        command = (what, "demo", "-o", str(target))
        assert shell.pace(*command).code == 0
        before = target.read_bytes()
        filler = fill(disk)
        said = shell.pace(*command, "--force")
        assert (said.code, said.err) == (2, f"pace: Cannot write {target}: No space left on device.\n")
        assert target.read_bytes() == before
        assert {file.name for file in disk.iterdir()} == {"page", filler.name}


@pytest.mark.long
@pytest.mark.fault("Disk, everywhere", "a simulation with a read-only /dev/shm")
def test_a_simulation_needs_no_memory_that_can_be_written(tmp_path: Path) -> None:
    mount = "mount -t tmpfs -o ro pace-test /dev/shm"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    shell = f"{mount} && exec {PACE} simulate --candidates 16 --threads 4 --group-size 4"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", shell], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "speed-up over sync" in done.stdout
