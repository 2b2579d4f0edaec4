"""The index of this machine's runs: who writes at once, how large it grows, and what it never costs a run."""

import fcntl
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pace_async.runtime import run_index
from pace_async.runtime.run_index import KEPT, forget_run, index_file, indexed_runs, remember_run
from tests.support.finished_runs import pace

WRITERS, EACH = 4, 10


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACE_HOME", str(tmp_path / "home"))


def folders() -> list[str]:
    return [str(run.folder) for run in indexed_runs()]


def test_a_run_is_in_the_index_once_at_the_place_of_its_last_start() -> None:
    for name in ("/a", "/b", "/a"):
        remember_run(Path(name))
    assert folders() == ["/b", "/a"]
    forget_run(Path("/b"))
    assert folders() == ["/a"]


WRITES = """
import sys
from pathlib import Path
from pace_async.runtime import run_index
run_index.WAIT_S = 60.0  # all of them wait for their turn here
sys.stdin.read()
for number in range(int(sys.argv[2])):
    run_index.remember_run(Path(f"/runs/{sys.argv[1]}-{number}"))
"""


def test_processes_that_write_at_once_lose_nothing() -> None:
    commands = [[sys.executable, "-c", WRITES, str(writer), str(EACH)] for writer in range(WRITERS)]
    writers = [subprocess.Popen(command, stdin=subprocess.PIPE) for command in commands]
    for process in writers:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(60) for process in writers] == [0] * WRITERS
    assert sorted(folders()) == sorted(f"/runs/{writer}-{n}" for writer in range(WRITERS) for n in range(EACH))


def test_the_index_keeps_the_last_runs_and_ignores_lines_that_are_none() -> None:
    index_file().parent.mkdir(parents=True)
    lines = [json.dumps({"folder": f"/{number}", "at": 1.0}) for number in range(KEPT)]
    index_file().write_text("\n".join(["half a li", "[]", '{"folder": 3}', *lines]) + "\n")
    assert len(folders()) == KEPT
    remember_run(Path("/last"))
    assert folders() == [*(f"/{number}" for number in range(1, KEPT)), "/last"]


def test_an_index_that_cannot_be_written_or_hangs_stops_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    remember_run(Path("/first"))
    monkeypatch.setattr(run_index, "WAIT_S", 0.01)
    with (home / "runs.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remember_run(Path("/second"))  # returns while another process has the lock
        assert folders() == ["/first"]
    monkeypatch.setenv("PACE_HOME", "/dev/null/home")
    remember_run(Path("/third"))
    assert indexed_runs() == []


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"PACE_HOME": "/own"}, "/own/runs.jsonl"),
        ({"PACE_HOME": "", "XDG_DATA_HOME": "/data"}, "/data/pace/runs.jsonl"),
    ],
)
def test_variables_name_the_place_of_the_index(
    variables: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(index_file()) == place


@pytest.mark.long
def test_a_run_writes_its_folder_into_the_index_and_nothing_else(tmp_path: Path) -> None:
    arguments = ("--candidates", "1", "--threads", "1", "--objective", "none", "--advisor", "bandit")
    ended = pace("run", "circle_packing", *arguments, "--run-dir", "mine", "--display", "none", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    [line] = index_file().read_text().splitlines()
    assert set(json.loads(line)) == {"folder", "at"}
    assert json.loads(line)["folder"] == str(tmp_path / "mine")
