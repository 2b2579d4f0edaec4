"""pace run --seeds: runs one after the other, what goes on, what is shared, and how it ends."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

import pace_async
from pace_async.cli.running import _row
from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.context.bill import CallBill, in_words
from pace_async.errors import Interrupted, SeedProgramFails, UsageError
from pace_async.interface.beginning import Asked, begin, read
from pace_async.interface.processes import start_process
from pace_async.population.lock import RunLock
from pace_async.runtime.run_paths import find_run_paths
from pace_async.runtime.series import Series, find_series, make_folder, planned_series, read_series
from pace_async.runtime.start import launch
from pace_async.runtime.start.signals import _asked_nothing_more, ends_as_by_ctrl_c
from pace_async.task import load_task
from tests.support.command_line import PACE, Said, Shell, search
from tests.support.finished_runs import make_run

TASK = "circle_packing"
FEW = {"stop.candidates": 2, "search.threads": 1, "learner.objective": "none", "advisor.model": "bandit"}
ARGUMENTS = [word for name, value in FEW.items() for word in ("--set", f"{name}={value}")]


def series(number: int, folder: Path, **settings: object) -> Series:
    config = resolve(None, {**FEW, **{name.replace("__", "."): value for name, value in settings.items()}}, {})
    return Series(folder, number, config)


def run_series(folder: Path, *more: str) -> Said:
    return search(folder, ("run", TASK, *ARGUMENTS, *more, "--display", "plain"))


def seeds_of(folder: Path) -> dict[str, int]:
    """The seed that each run's row has."""
    seeds: dict[str, int] = {}
    for run in sorted(folder.glob("*/population.db")):
        with closing(sqlite3.connect(run)) as database:
            name, seed = database.execute("select name, seed from runs").fetchone()
        seeds[name] = seed
    return seeds


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def finished(begun: Series, seed: int) -> None:
    """Put a finished run where the series has that of the seed."""
    make_run(begun.paths(seed).folder)


def test_each_run_has_its_seed_and_an_equal_share_of_the_budget(tmp_path: Path) -> None:
    three = series(3, tmp_path / "mine", seed=5, stop__budget=6.0)
    configs = [three.config_of(seed) for seed in three.seeds]
    assert [(config.seed, config.stop.budget) for config in configs] == [(5, 2.0), (6, 2.0), (7, 2.0)]
    assert [three.paths(seed).name for seed in three.seeds] == ["mine-s5", "mine-s6", "mine-s7"]
    raised = three.changed({"stop.budget": 9.0})
    assert raised.changes_of({"stop.budget": 9.0}) == {"stop.budget": 3.0}
    assert series(3, tmp_path).changes_of({"stop.candidates": 4}) == {"stop.candidates": 4}


def test_what_is_written_of_a_series_is_read_back(place: Path) -> None:
    begun = make_folder(series(2, Path("mine"), stop__budget=1.0, evaluation__settings={"count": 3}))
    assert read_series(Path("mine")) == find_series("mine") == begun
    begun.file.write_text("{}")
    with pytest.raises(UsageError, match="cannot be read"):
        read_series(Path("mine"))
    assert find_series("other") is None


@pytest.mark.long
def test_the_same_command_goes_on_with_an_unfinished_series_and_begins_anew_after_its_end(place: Path) -> None:
    config = series(2, place).config
    begun = make_folder(planned_series(config, TASK, 2, None, ()))
    assert begun.folder == Path("runs", "circle_packing-1")
    finished(begun, 0)
    assert begun.unfinished() == [1]
    assert planned_series(config, TASK, 2, None, ()) == begun
    assert planned_series(config, TASK, 3, None, ()).folder.name == "circle_packing-2"
    with RunLock(begun.folder):  # another process drives it
        assert planned_series(config, TASK, 2, None, ()).folder.name == "circle_packing-2"
    finished(begun, 1)
    assert planned_series(config, TASK, 2, None, ()).folder.name == "circle_packing-2"
    assert planned_series(config, TASK, 2, None, ("circle_packing-2-s1",)).folder.name == "circle_packing-3"


def test_a_folder_with_another_series_or_a_run_is_refused(place: Path) -> None:
    make_folder(series(2, Path("mine")))
    other = series(2, Path("mine"), stop__candidates=5).config
    with pytest.raises(UsageError, match="series with other settings"):
        planned_series(other, TASK, 2, Path("mine"), ())
    make_run(place / "single")
    with pytest.raises(UsageError, match="already holds a run"):
        planned_series(other, TASK, 2, Path("single"), ())


def test_a_name_that_another_process_took_meanwhile_is_left_to_it(place: Path) -> None:
    planned = planned_series(series(2, place).config, TASK, 2, None, ())
    (planned.folder / "theirs").mkdir(parents=True)
    assert make_folder(planned).folder.name == "circle_packing-2"


def test_runs_of_a_series_are_found_by_name_and_listed(shell: Shell, place: Path) -> None:
    begun = make_folder(series(2, Path("runs", "mine")))
    for seed in begun.seeds:
        finished(begun, seed)
    assert find_run_paths("mine-s1").folder == Path("runs", "mine", "mine-s1")
    assert sorted(row["run"] for row in json.loads(shell.pace("list", "--json").out)) == ["mine-s0", "mine-s1"]
    compared = json.loads(shell.pace("compare", "runs/mine", "--json").out)
    assert [run["run"] for run in compared["runs"]] == ["mine-s0", "mine-s1"]
    assert "name one of them, as in runs/mine/mine-s0" in shell.pace("status", "mine").err


@pytest.mark.long
def test_a_dry_run_multiplies_the_bill_by_the_runs_that_are_missing_and_shares_the_budget(shell: Shell) -> None:
    model = ("--implementer", "openai/gpt-4o-mini", "--budget", "3", "--candidates", "100", "--dry-run", "--json")
    arguments = ("run", TASK, "--objective", "none", "--advisor", "bandit", *model)
    single = json.loads(shell.pace(*arguments).out)["plan"]
    planned = json.loads(shell.pace(*arguments, "--seeds", "3").out)
    assert "; 100 candidates: 100 calls," in single["bill"]
    assert "; 3 runs of 100 candidates: 300 calls," in planned["plan"]["bill"]
    assert "seeds 0, 1, 2. The budget of 3 USD holds for all together: 1 USD each" in planned["plan"]["series"]
    assert planned["config"]["stop"]["budget"] == 1.0
    assert shell.files() == []


def test_the_bill_of_several_runs_is_theirs_together() -> None:
    calls = [CallBill("program", 100, 10, 0.5)]
    assert in_words(calls, 4, 3).endswith("; 3 runs of 4 candidates: 12 calls, 1200 in, 120 out, 6 USD")
    assert in_words(calls, 4).endswith("; 4 candidates: 4 calls, 400 in, 40 out, 2 USD")


@pytest.mark.long
@pytest.mark.nightly
def test_a_series_runs_each_seed_goes_on_with_what_is_missing_and_takes_new_limits(tmp_path: Path) -> None:
    said = run_series(tmp_path, "--seeds", "2", "--seed", "1", "--budget", "3")
    folder = tmp_path / "runs" / "circle_packing-1"
    assert said.code == 0, said.err
    assert seeds_of(folder) == {"circle_packing-1-s1": 1, "circle_packing-1-s2": 2}
    assert "holds for all together: 1.5 USD each" in said.err
    table = said.out.splitlines()
    heading = next(number for number, line in enumerate(table) if line.startswith("seed  run"))
    assert [line.split()[:4] for line in table[heading + 1 : heading + 3]] == [
        ["1", "circle_packing-1-s1", "done", "2"],
        ["2", "circle_packing-1-s2", "done", "2"],
    ]
    assert "`pace compare runs/circle_packing-1`" in said.out

    shutil.rmtree(folder / "circle_packing-1-s1")
    before = (folder / "circle_packing-1-s2" / "events.jsonl").read_bytes()
    again = run_series(tmp_path, "--seeds", "2", "--seed", "1", "--budget", "3")
    assert (again.code, "1 of them finished, seed 1." in again.err) == (0, True)
    assert list(seeds_of(folder)) == ["circle_packing-1-s1", "circle_packing-1-s2"]
    assert (folder / "circle_packing-1-s2" / "events.jsonl").read_bytes() == before

    raised = search(tmp_path, ("resume", "circle_packing-1", "--candidates", "3", "--display", "none"))
    assert raised.code == 0, raised.err
    for name in seeds_of(folder):
        with closing(sqlite3.connect(folder / name / "population.db")) as database:
            assert database.execute("select count(*) from candidates").fetchone() == (1 + 3,)
    assert read_series(folder).config.stop.candidates == 3
    refused = search(tmp_path, ("resume", "circle_packing-1", "--set", "search.threads=2"))
    assert refused.code == 2
    assert "`pace resume runs/circle_packing-1` goes on with the series." in refused.err
    assert read_series(folder).config.search.threads == 1


@pytest.mark.long
def test_a_series_of_which_no_run_can_begin_leaves_nothing(tmp_path: Path) -> None:
    task = load_task(TASK)
    copy = Path(shutil.copytree(task.folder, tmp_path / "copy"))
    (copy / task.spec.program).write_text(f"{task.program}\nraise RuntimeError\n")
    said = search(tmp_path, ("run", "./copy", *ARGUMENTS, "--seeds", "2", "--display", "plain"))
    assert said.code == SeedProgramFails.exit_code, said.err
    assert "goes on with the series" not in said.err
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.long
@pytest.mark.nightly
def test_an_interrupt_ends_the_series_and_not_only_its_run(tmp_path: Path) -> None:
    command = [PACE, "run", TASK, *ARGUMENTS, "--candidates", "100000", "--seeds", "2", "--display", "plain"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "candidate 1 " in line:
                process.send_signal(signal.SIGINT)
                break
        out, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
    assert seeds_of(tmp_path / "runs" / "circle_packing-1") == {"circle_packing-1-s0": 0}
    assert [line.split()[2:4] for line in out.splitlines() if line.startswith("1 ")] == [["not", "begun"]]
    assert "`pace resume runs/circle_packing-1` goes on with the series." in out


def test_a_signal_while_a_run_ends_begins_no_other(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = list[int]()

    def start(config: Config, *_: object) -> int:
        began.append(config.seed)
        with ends_as_by_ctrl_c():
            with _asked_nothing_more():
                pass
            signal.raise_signal(signal.SIGTERM)
        return 0

    monkeypatch.setattr(launch, "start", start)
    with pytest.raises(Interrupted, match="`pace resume mine` goes on with the series"):
        begin(Asked(settings=FEW, seeds=2, run_dir="mine"))
    assert began == [0]


@pytest.mark.long
@pytest.mark.nightly
def test_python_gets_the_runs_of_a_series_in_the_order_of_their_seeds(place: Path) -> None:
    runs = pace_async.run(TASK, FEW, seeds=2)
    assert [Path(run.name).name for run in runs] == ["circle_packing-1-s0", "circle_packing-1-s1"]
    assert [run.status()["state"] for run in runs] == ["done", "done"]
    assert pace_async.run(TASK, FEW, seeds=2, run_dir=Path(runs[0].name).parent) == runs


def test_from_python_a_series_has_a_run_and_a_folder_before_its_process_begins(place: Path) -> None:
    with pytest.raises(UsageError, match="at least one run"):
        start_process(TASK, FEW, (), None, 0)
    process = start_process(TASK, FEW, (), "mine", 2)
    assert read_series(process.folder).number == 2
    asked = read(process.document.decode())
    assert isinstance(asked, Asked)
    assert (asked.seeds, asked.folder, asked.display) == (2, process.folder, "none")


def test_a_packaged_advisor_costs_nothing_and_is_no_unknown_price(tmp_path: Path) -> None:
    run = make_run(tmp_path / "single")
    assert _row(3, find_run_paths(str(run)))["spend"] == "$0.00"
